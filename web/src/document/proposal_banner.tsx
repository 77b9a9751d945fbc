import { Anchor, Card, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { Link } from "wouter";
import { useApi } from "../api/api.js";
import { ProposalItem } from "../inbox/proposal_item.js";
import { proposalsKey } from "../inbox/queries.js";
import { usePermits } from "../session/session_context.js";

const { PROPOSED, FAILED } = v1.ProposalState;

/** Returns the proposal of a document that a banner shows: the open one, or the newest one if its run failed. `proposals`: the newest first. */
export function shownProposal(proposals: readonly v1.Proposal[]): v1.Proposal | undefined {
  return proposals.find(({ state }) => state === PROPOSED) ?? proposals.slice(0, 1).find(({ state }) => state === FAILED);
}

/**
 * The open proposal for the document, or the reason why its run failed, with the log of the run. The stream of the inbox updates it.
 * Nothing is shown if there is none, or if the token lacks its scope.
 */
export function ProposalBanner({ documentId }: { readonly documentId: string }) {
  const api = useApi();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS);
  const proposals = useQuery({
    queryKey: proposalsKey(documentId),
    queryFn: async ({ signal }) => (await api.proposals.listProposals({ filter: `document:${documentId}` }, { signal })).proposals,
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
