// Files as addresses of this tab.
import { useEffect, useState } from "react";

/** Returns an address of this tab for a file, which is valid while the component shows the file. Undefined: there is no file yet. */
export function useObjectUrl(file: Blob | undefined): string | undefined {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    if (file === undefined) return undefined;
    const created = URL.createObjectURL(file);
    setUrl(created);
    return () => URL.revokeObjectURL(created);
  }, [file]);
  return url;
}
