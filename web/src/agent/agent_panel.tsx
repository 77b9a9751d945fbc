import { useMemo } from "react";
import { documentSubject } from "./subject.js";
import { ThreadPanel } from "./thread_panel.js";

/** The conversations about a document. */
export function AgentPanel({ documentId }: { readonly documentId: string }) {
  const subject = useMemo(() => documentSubject(documentId), [documentId]);
  return <ThreadPanel subject={subject} />;
}
