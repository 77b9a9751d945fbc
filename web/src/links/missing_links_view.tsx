import { Button, Stack, Text } from "@mantine/core";
import type { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { DocumentLink } from "../documents/document_link.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { MISSING_LINKS_KEY, missingLinks } from "./queries.js";

/** The targets to which documents refer and which the organization does not have. A target is a text of a document, and never a link. */
export function MissingLinksView() {
  const api = useApi();
  return (
    <ListView<v1.MissingLink>
      title="Missing links"
      queryKey={MISSING_LINKS_KEY}
      load={(pageToken, signal) => missingLinks(api, pageToken, signal)}
      keyOf={({ target, documentIds }) => `${documentIds[0] ?? ""} ${target}`}
      emptyText="Every document that other documents refer to was uploaded. An entry disappears when its document is uploaded."
      columns={[
        { label: "Target", cell: ({ target }) => <Text size="sm">{target}</Text> },
        { label: "Referring documents", cell: (link) => <Referrers link={link} /> },
        { label: "First found", cell: ({ createTime }) => formatTime(createTime) },
      ]}
    />
  );
}

/** The documents that refer to a target, whose names are read on demand. */
function Referrers({ link: { target, documentIds, hasMoreDocuments } }: { readonly link: v1.MissingLink }) {
  const [isOpen, setOpen] = useState(false);
  const count = `${documentIds.length}${hasMoreDocuments ? " or more" : ""} ${documentIds.length === 1 && !hasMoreDocuments ? "document" : "documents"}`;
  return (
    <Stack gap={2} align="flex-start">
      <Button size="compact-xs" variant="subtle" color="gray" aria-expanded={isOpen} aria-label={`${count} with ${target}`} onClick={() => setOpen(!isOpen)}>{count}</Button>
      {isOpen && documentIds.map((documentId) => <DocumentLink key={documentId} documentId={documentId} />)}
      {isOpen && hasMoreDocuments && <Text size="xs" c="dimmed">Further documents refer to the target.</Text>}
    </Stack>
  );
}
