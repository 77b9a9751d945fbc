import { Anchor, Button, Group, Stack, Text } from "@mantine/core";
import { create } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@tanstack/react-query";
import { approvals, approveRequest, v1, type Decision } from "folio-client";
import { useState } from "react";
import { Link } from "wouter";
import { ToolCard } from "../agent/tool_card.js";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatLeft } from "../format.js";
import { useDecision } from "./queries.js";

/** Returns the request with decisions by the ids of calls. Undefined: no decision is about a call that waits. */
export function requestOf({ turnId, calls }: v1.PendingApproval, approvable: readonly string[], decisions: ReadonlyMap<string, Decision>) {
  const waiting = create(v1.AwaitingApprovalSchema, { turnId, pending: calls });
  return approveRequest(waiting, approvals(waiting, approvable).map((approval) => [approval, decisions.get(approval.callId) ?? "leave"]));
}

/** A turn with calls that wait. */
export function ApprovalItem({ approval }: { readonly approval: v1.PendingApproval }) {
  const api = useApi();
  const { turnId, threadId, documentIds, expireTime } = approval;
  const turn = useQuery({ queryKey: ["turn", turnId], queryFn: async ({ signal }) => (await api.service(v1.ConversationService).getTurn({ turnId }, { signal })).turn ?? null });
  const [decided, setDecided] = useState<ReadonlyMap<string, Decision>>(new Map());
  const approvable = turn.data?.approvableCallIds ?? [];
  const send = useDecision(async (decisions: ReadonlyMap<string, Decision>) => {
    const request = requestOf(approval, approvable, decisions);
    if (request !== undefined) await api.service(v1.ConversationService).approve(request);
  });
  const waiting = approval.calls.filter(({ needsApproval }) => needsApproval);
  const undecided = waiting.filter(({ callId }) => !decided.has(callId));
  const decide = (decisions: ReadonlyMap<string, Decision>) => {
    setDecided((before) => new Map([...before, ...decisions]));
    send.mutate(decisions, { onError: () => setDecided(new Map()), onSettled: () => void turn.refetch() });
  };
  const document = documentIds[0];
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Text size="sm">
          {turn.data?.userText !== undefined && turn.data.userText !== "" ? <bdi>{turn.data.userText}</bdi> : "A conversation waits"}
          {document !== undefined && <> · <Anchor component={Link} href={`/documents/${document}?panel=agent&thread=${threadId}`} size="sm">Open</Anchor></>}
        </Text>
        {expireTime !== undefined && <Text size="xs" c="dimmed">{formatLeft(timestampDate(expireTime), new Date())}</Text>}
      </Group>
      {waiting.map((call) => (
        <ToolCard
          key={call.callId}
          callId={call.callId}
          name={call.name}
          argumentsJson={call.argumentsJson}
          waiting={{
            turnId,
            requirement: call.approvalRequirement,
            mayApprove: approvable.includes(call.callId),
            decision: decided.get(call.callId),
            isBusy: send.isPending,
            onDecide: (decision) => decide(new Map([[call.callId, decision]])),
          }}
        />
      ))}
      {undecided.length > 1 && undecided.every(({ callId }) => approvable.includes(callId)) && (
        <Group><Button size="xs" color="green" loading={send.isPending} onClick={() => decide(new Map(undecided.map(({ callId }) => [callId, "approve"])))}>{`Approve all ${undecided.length} calls`}</Button></Group>
      )}
      {send.error !== null && <ErrorNotice error={send.error} onClose={send.reset} />}
    </Stack>
  );
}
