import { Anchor, Button, Checkbox, Group, Stack, Text } from "@mantine/core";
import { v1 } from "folio-client";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { useApi } from "../api/api.js";
import { useDocument } from "../document/queries.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatPercent } from "../format.js";
import { useDecision } from "./queries.js";

/** Returns the id of the resource of a revision. */
const idOf = (revid: string) => revid.split(".")[0] ?? "";

/** A proposal of an agent: accept with the offer of a tag, refine in a conversation, or reject. */
export function ProposalItem({ proposal }: { readonly proposal: v1.Proposal }) {
  const api = useApi();
  const [, navigate] = useLocation();
  const { proposalId, documentId, documentType, schemaRevid, promptRevid, extractionId, similarProposalId, similarity, etag } = proposal;
  const document = useDocument(documentId);
  const [isTagged, setTagged] = useState(documentType !== "");
  const accept = useDecision(() => api.service(v1.ProposalService).acceptProposal({ proposalId, etag, tagName: isTagged ? documentType : "" }));
  const reject = useDecision(() => api.service(v1.ProposalService).rejectProposal({ proposalId, etag }));
  const refine = useDecision(async () => {
    const { thread } = await api.service(v1.ProposalService).refineProposal({ proposalId });
    navigate(`/documents/${documentId}?panel=agent&thread=${thread?.threadId ?? ""}`);
  });
  const error = accept.error ?? reject.error ?? refine.error;
  const isBusy = accept.isPending || reject.isPending || refine.isPending;
  return (
    <Stack gap="xs">
      <Text size="sm">
        {"For "}
        <Anchor component={Link} href={`/documents/${documentId}?panel=extraction${extractionId === "" ? "" : `&extraction=${extractionId}`}`} size="sm"><bdi>{document.data?.name ?? "a document"}</bdi></Anchor>
        {documentType !== "" && <> ({<bdi>{documentType}</bdi>})</>}
        {similarProposalId === "" ? ", an agent created an extraction, " : `, an extraction was made as for a similar document (${formatPercent(similarity)} alike), with `}
        {schemaRevid !== "" && <><Anchor component={Link} href={`/schemas/${idOf(schemaRevid)}`} size="sm">a schema</Anchor>{" and "}</>}
        <Anchor component={Link} href={`/prompts?prompt=${idOf(promptRevid)}`} size="sm">a prompt</Anchor>.
      </Text>
      {documentType !== "" && <Checkbox size="xs" checked={isTagged} onChange={(event) => setTagged(event.currentTarget.checked)} label={<>Run the prompt on documents with the tag <bdi>{documentType}</bdi></>} />}
      <Group gap="xs">
        <Button size="xs" color="green" data-decision="approve" loading={accept.isPending} disabled={isBusy} onClick={() => accept.mutate(undefined)}>Accept</Button>
        <Button size="xs" variant="default" loading={refine.isPending} disabled={isBusy} onClick={() => refine.mutate(undefined)}>Refine</Button>
        <Button size="xs" variant="default" data-decision="reject" loading={reject.isPending} disabled={isBusy} onClick={() => reject.mutate(undefined)}>Reject</Button>
      </Group>
      {error !== null && <ErrorNotice error={error} />}
    </Stack>
  );
}
