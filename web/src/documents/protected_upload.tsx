import { Button, Group, Modal, PasswordInput, Stack, TextInput } from "@mantine/core";
import { useState } from "react";

/** Maximum size of the password of a PDF in bytes. */
const PASSWORD_BYTES_MAX = 127;

/** Returns the problem of the password of a PDF. Undefined: the server accepts its size. */
export function pdfPasswordProblem(password: string): string | undefined {
  const { length } = new TextEncoder().encode(password.trim());
  return length > 0 && length <= PASSWORD_BYTES_MAX ? undefined : `A password has 1 to ${PASSWORD_BYTES_MAX} bytes.`;
}

interface ProtectedUploadProps {
  readonly onUpload: (file: File, password: string) => void;
  readonly onClose: () => void;
}

/** Uploads a PDF that only its password opens. The server reads the text at once, and does not store the password. */
export function ProtectedUpload({ onUpload, onClose }: ProtectedUploadProps) {
  const [file, setFile] = useState<File>();
  const [password, setPassword] = useState("");
  const problem = pdfPasswordProblem(password);
  const upload = () => {
    if (file === undefined || problem !== undefined) return;
    onUpload(file, password);
    onClose();
  };
  return (
    <Modal opened onClose={onClose} title="Upload a protected PDF">
      <form onSubmit={(event) => { event.preventDefault(); upload(); }}>
        <Stack gap="sm">
          <TextInput type="file" label="PDF" accept="application/pdf,.pdf" onChange={(event) => setFile(event.currentTarget.files?.[0])} required data-autofocus />
          <PasswordInput label="Password of the PDF" description="The server reads the text with it, and does not store it." autoComplete="off" value={password} onChange={(event) => setPassword(event.currentTarget.value)} error={password === "" ? undefined : problem} required />
          <Group justify="flex-end"><Button type="submit" disabled={file === undefined || problem !== undefined}>Upload the PDF</Button></Group>
        </Stack>
      </form>
    </Modal>
  );
}
