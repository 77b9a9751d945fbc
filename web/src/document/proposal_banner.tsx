import { Anchor, Card, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { Link } from "wouter";
import { useApi } from "../api/api.js";
import { ProposalItem } from "../inbox/proposal_item.js";
import { proposalsKey } from "../inbox/queries.js";
import { usePermits } from "../session/session_context.js";

/** The open proposal for the document, with the log of its run. The stream of the inbox updates it. Nothing is shown if there is none, or if the token lacks its scope. */
export function ProposalBanner({ documentId }: { readonly documentId: string }) {
  const api = useApi();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS);
  const proposals = useQuery({
    queryKey: proposalsKey(documentId),
    queryFn: async ({ signal }) => (await api.proposals.listProposals({ filter: `state:proposed document:${documentId}` }, { signal })).proposals,
    enabled: canWrite,
  });
  const proposal = proposals.data?.[0];
  if (proposal === undefined) return null;
  return (
    <Card withBorder padding="sm" component="section" aria-label="Proposal">
      <ProposalItem proposal={proposal} />
      {proposal.threadId !== "" && <Group mt={6}><Anchor component={Link} href={`/documents/${documentId}?panel=agent&thread=${proposal.threadId}`} size="xs">Show the log of the run</Anchor></Group>}
    </Card>
  );
}
