import { Alert, Button, Group, PasswordInput, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useLocation } from "wouter";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { usePermits } from "../session/session_context.js";

/** Maximum size of the password of a PDF in bytes. */
const PASSWORD_BYTES_MAX = 127;

/** Returns the problem of the password of a PDF. Undefined: the server accepts its size. */
export function pdfPasswordProblem(password: string): string | undefined {
  const { length } = new TextEncoder().encode(password.trim());
  return length > 0 && length <= PASSWORD_BYTES_MAX ? undefined : `A password has 1 to ${PASSWORD_BYTES_MAX} bytes.`;
}

/** The reason why the text of a PDF was not read. A protected PDF is uploaded again with its password, which nothing stores. */
export function ProtectedNotice({ document }: { readonly document: v1.Document }) {
  const api = useApi();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DOCUMENTS);
  const [password, setPassword] = useState("");
  const { documentId, name, tagIds, metadata, autoCreate, mediaType, state, stateReason } = document;
  const upload = useMutation({
    mutationFn: async () => {
      const chunks: BlobPart[] = [];
      for await (const { part } of api.service(v1.DocumentService).downloadDocument({ documentId })) {
        if (part.case === "chunk") chunks.push(part.value as Uint8Array<ArrayBuffer>);
      }
      return api.upload(new Blob(chunks, { type: mediaType }), { name, tagIds, metadata, autoCreate, password });
    },
    onSuccess: async (created) => {
      await queries.invalidateQueries({ queryKey: ["documents"] });
      navigate(`/documents/${created.documentId}`);
    },
  });
  if (state !== v1.DocumentState.FAILED || mediaType !== "application/pdf") return null;
  const problem = pdfPasswordProblem(password);
  return (
    <Alert color="yellow" title="The text was not read">
      <Stack gap="xs">
        <Text size="sm" className="foreign">{stateReason}</Text>
        {canWrite && (
          <form onSubmit={(event) => { event.preventDefault(); upload.mutate(); }}>
            <Group align="flex-end">
              <PasswordInput size="xs" label="Password of the PDF" description="A copy is uploaded and read with the password, which is not stored. This document is kept." autoComplete="off" value={password} onChange={(event) => setPassword(event.currentTarget.value)} error={password === "" ? undefined : problem} flex={1} />
              <Button size="xs" type="submit" loading={upload.isPending} disabled={problem !== undefined}>Upload with the password</Button>
            </Group>
          </form>
        )}
        {upload.error !== null && <ErrorNotice error={upload.error} actions={{ retry: () => upload.mutate() }} onClose={upload.reset} />}
      </Stack>
    </Alert>
  );
}
