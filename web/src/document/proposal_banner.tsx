import { Anchor, Card, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { Link } from "wouter";
import { useApi } from "../api/api.js";
import { ProposalItem } from "../inbox/proposal_item.js";
import { proposalsKey } from "../inbox/queries.js";
import { usePermits } from "../session/session_context.js";

const { PROPOSED, FAILED } = v1.ProposalState;

/**
 * Returns the proposal that the banner of a document shows: the open proposal, else the newest proposal if its run failed.
 * Undefined: no banner. `proposals`: the newest first.
 */
export function shownProposal(proposals: readonly v1.Proposal[]): v1.Proposal | undefined {
  return proposals.find(({ state }) => state === PROPOSED) ?? proposals.slice(0, 1).find(({ state }) => state === FAILED);
}

/**
 * A banner with the open proposal for the document, or with the reason why the newest run failed, and a link to the log of the run.
 * The stream of the inbox updates the banner. The banner is empty if there is no such proposal, or if the user may not decide about
 * proposals.
 */
export function ProposalBanner({ documentId }: { readonly documentId: string }) {
  const api = useApi();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS);
  const proposals = useQuery({
    queryKey: proposalsKey(documentId),
    queryFn: async ({ signal }) => (await api.service(v1.ProposalService).listProposals({ filter: `document:${documentId}` }, { signal })).proposals,
    enabled: canWrite,
  });
  const proposal = shownProposal(proposals.data ?? []);
  if (proposal === undefined) return null;
  return (
    <Card withBorder padding="sm" component="section" aria-label="Proposal">
      {proposal.state === FAILED ? <Text size="sm">The agent made no proposal: <bdi>{proposal.reason}</bdi></Text> : <ProposalItem proposal={proposal} />}
      {proposal.threadId !== "" && <Group mt={6}><Anchor component={Link} href={`/documents/${documentId}?panel=agent&thread=${proposal.threadId}`} size="xs">Show the log of the run</Anchor></Group>}
    </Card>
  );
}
