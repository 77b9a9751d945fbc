import { Alert, Anchor, Button, Checkbox, Group, NumberInput, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { randomId, v1 } from "folio-client";
import { useState } from "react";
import { Link } from "wouter";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatCount } from "../format.js";
import { usePermits } from "../session/session_context.js";
import { EmptyState, QueryView } from "../states/states.js";
import { useFocus } from "./focus.js";
import { pagesLabel } from "./outline.js";
import { divided, joined, NAME_MAX, partsOf, reasonText, rowsOf, splitProblem, type SplitRow } from "./split.js";
import { useSplitProposal } from "./structure_queries.js";

/** The documents that were detected in a PDF. A member changes them and makes documents of them. */
export function SplitPanel({ document }: { readonly document: v1.Document }) {
  const { documentId, textGeneration, stateReason } = document;
  const proposal = useSplitProposal(documentId, textGeneration);
  if (textGeneration === "") return <EmptyState title="No proposal" text={stateReason || "The text is not available yet."} />;
  return <QueryView query={proposal}>{(parts) => <SplitForm key={textGeneration} document={document} parts={parts} />}</QueryView>;
}

/** The parts with the id of the request that makes them. Other parts have another id, so that a repeated request completes its split. */
interface Draft {
  readonly rows: readonly SplitRow[];
  readonly requestId: string;
}

function SplitForm({ document, parts }: { readonly document: v1.Document; readonly parts: readonly v1.ProposedPart[] }) {
  const { documentId, pages } = document;
  const api = useApi();
  const queries = useQueryClient();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DOCUMENTS);
  const [{ rows, requestId }, setDraft] = useState<Draft>(() => ({ rows: rowsOf(parts), requestId: randomId() }));
  const [page, setPage] = useState<number | string>("");
  const { goTo } = useFocus();
  const split = useMutation({
    mutationFn: async () => (await api.service(v1.DocumentService).splitDocument({ documentId, parts: partsOf(rows), requestId })).documents,
    onSuccess: () => queries.invalidateQueries({ queryKey: ["documents"] }),
  });
  const set = (rows: readonly SplitRow[]) => {
    setDraft({ rows, requestId: randomId() });
    split.reset();
  };
  const change = (index: number, changes: Partial<SplitRow>) => set(rows.map((row, at) => (at === index ? { ...row, ...changes } : row)));
  const problem = splitProblem(rows);
  return (
    <Stack gap="sm">
      <Text size="sm">{parts.length > 1 ? `The file seems to contain ${parts.length} documents.` : "No further document was detected in the file."}</Text>
      <Stack gap="xs" role="list" aria-label="Parts">
        {rows.map((row, index) => (
          <Stack key={row.firstPage} gap={2} role="listitem">
            <Group gap="xs" wrap="nowrap">
              <Checkbox size="xs" aria-label={`Make a document of ${pagesLabel(row)}`} checked={row.isIncluded} disabled={!canWrite} onChange={(event) => change(index, { isIncluded: event.currentTarget.checked })} />
              <Button size="compact-xs" variant="default" flex="none" aria-label={`Go to page ${row.firstPage} of the part`} onClick={() => goTo(row.firstPage)}>{pagesLabel(row)}</Button>
              <TextInput size="xs" flex={1} aria-label={`Name of ${pagesLabel(row)}`} placeholder="Name of the file with the pages" value={row.name} readOnly={!canWrite} maxLength={NAME_MAX} onChange={(event) => change(index, { name: event.currentTarget.value })} />
              {canWrite && index + 1 < rows.length && <Button size="compact-xs" variant="subtle" color="gray" flex="none" aria-label={`Join ${pagesLabel(row)} with the next part`} onClick={() => set(joined(rows, index))}>Join ↓</Button>}
            </Group>
            {reasonText(row) !== "" && <Text size="xs" c="dimmed" className="foreign">{reasonText(row)}</Text>}
          </Stack>
        ))}
      </Stack>
      {canWrite && (
        <>
          <Group gap="xs">
            <NumberInput size="xs" w={110} aria-label="Page that starts a part" placeholder="Page" min={2} max={pages} allowDecimal={false} value={page} onChange={setPage} />
            <Button size="xs" variant="default" disabled={typeof page !== "number"} onClick={() => { if (typeof page === "number") set(divided(rows, page)); }}>Start a part at the page</Button>
          </Group>
          <Text size="xs" c="dimmed">The file stays unchanged. The documents have its tags, but neither form fields nor links to other pages.</Text>
          {split.error !== null && <ErrorNotice error={split.error} actions={{ retry: () => split.mutate() }} onClose={split.reset} />}
          {split.data === undefined ? (
            <Group>
              <Button size="xs" loading={split.isPending} disabled={problem !== undefined} onClick={() => split.mutate()}>{`Make ${formatCount(partsOf(rows).length, "document")}`}</Button>
              {problem !== undefined && <Text size="xs" c="dimmed" role="status">{problem}</Text>}
            </Group>
          ) : <Made documents={split.data} />}
        </>
      )}
    </Stack>
  );
}

function Made({ documents }: { readonly documents: readonly v1.Document[] }) {
  return (
    <Alert color="green" title={`${documents.length} documents were made`} role="status">
      <Stack gap={2}>
        {documents.map(({ documentId, name }) => <Anchor key={documentId} component={Link} href={`/documents/${documentId}`} size="sm" className="foreign">{name}</Anchor>)}
      </Stack>
    </Alert>
  );
}
