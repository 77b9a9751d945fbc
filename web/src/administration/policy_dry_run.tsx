import { Alert, Button, Group, Stack, Table, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useLocation } from "wouter";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatNumber, formatTime } from "../format.js";
import { EmptyState, MoreButton } from "../states/states.js";
import { changedCalls, turnOfCall, verdictName, verdictText } from "./dry_run.js";
import { textOfPolicy } from "./policy_text.js";

/** Maximum number of recorded calls of a dry run, as many as the server permits. */
const CALLS_MAX = 1_000;
const PAGE = 50;

/** Evaluates the edited policy on recorded calls. `policy`: undefined while the text has a problem. */
export function PolicyDryRun({ policy }: { readonly policy: v1.Policy | undefined }) {
  const api = useApi();
  const test = useMutation({
    mutationFn: async (policy: v1.Policy) => ({ result: await api.service(v1.PolicyService).testPolicy({ policy, callsMax: CALLS_MAX }), text: textOfPolicy(policy) }),
  });
  const isOutdated = test.data !== undefined && (policy === undefined || textOfPolicy(policy) !== test.data.text);
  return (
    <Stack gap="sm" component="section" aria-label="Dry run">
      <Group>
        <Button size="xs" variant="default" loading={test.isPending && !test.isPaused} disabled={policy === undefined} onClick={() => policy !== undefined && test.mutate(policy)}>Test on recorded calls</Button>
        <Text size="xs" c="dimmed">The test changes nothing.</Text>
      </Group>
      {test.isPaused && <EmptyState title="You are offline" text="The test runs when the connection is back." />}
      {test.error !== null && <ErrorNotice error={test.error} onClose={test.reset} />}
      {isOutdated && <Alert color="yellow" p="xs" role="status">The rules were changed after this test. Test them again.</Alert>}
      {test.data !== undefined && <DryRunResult key={test.submittedAt} result={test.data.result} />}
    </Stack>
  );
}

function DryRunResult({ result: { calls, counts, changed, hasMore } }: { readonly result: v1.TestPolicyResponse }) {
  const [shown, setShown] = useState(PAGE);
  const differing = changedCalls(calls);
  if (calls.length === 0) return <EmptyState title="No recorded calls" text="The agents of your organization called no tools yet." />;
  return (
    <>
      <Text size="sm" role="status">{`${formatNumber(changed)} of ${formatNumber(calls.length)} calls change.${hasMore ? " Older calls were not tested." : ""}`}</Text>
      <Table aria-label="Calls by verdict" verticalSpacing={4} maw={520}>
        <Table.Thead><Table.Tr><Table.Th>Now</Table.Th><Table.Th>With these rules</Table.Th><Table.Th>Calls</Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>
          {counts.map(({ current, candidate, calls }) => (
            <Table.Tr key={`${current} ${candidate}`}><Table.Td>{verdictName(current)}</Table.Td><Table.Td>{verdictName(candidate)}</Table.Td><Table.Td>{formatNumber(calls)}</Table.Td></Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {differing.length > 0 && (
        <Table.ScrollContainer minWidth={640}>
          <Table aria-label="Calls that change" verticalSpacing={4}>
            <Table.Thead><Table.Tr>{["Time", "Tool", "User", "Now", "With these rules", "Conversation"].map((label) => <Table.Th key={label}>{label}</Table.Th>)}</Table.Tr></Table.Thead>
            <Table.Tbody>{differing.slice(0, shown).map((call) => <ChangedCall key={call.callId} call={call} />)}</Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {differing.length > shown && <MoreButton onClick={() => setShown(shown + PAGE)} loading={false} />}
    </>
  );
}

function ChangedCall({ call: { callId, tool, userId, createTime, current, candidate } }: { readonly call: v1.TestedCall }) {
  const api = useApi();
  const [, navigate] = useLocation();
  // The result contains no threads: only an opened one is read.
  const open = useMutation({
    mutationFn: async () => {
      const threadId = (await api.service(v1.ConversationService).getTurn({ turnId: turnOfCall(callId) })).turn?.threadId ?? "";
      const { thread } = await api.service(v1.ThreadService).getThread({ threadId, pageSize: 1 });
      return `/documents/${thread?.documentIds[0] ?? ""}?panel=agent&thread=${threadId}`;
    },
    onSuccess: (path) => navigate(path),
  });
  return (
    <Table.Tr className="foreign">
      <Table.Td>{formatTime(createTime)}</Table.Td>
      <Table.Td>{tool}</Table.Td>
      <Table.Td>{userId}</Table.Td>
      <Table.Td>{verdictText(current)}</Table.Td>
      <Table.Td>{verdictText(candidate)}</Table.Td>
      <Table.Td>
        <Button size="compact-xs" variant="subtle" loading={open.isPending} onClick={() => open.mutate()} aria-label={`Open the conversation of ${tool}, ${callId}`}>Open</Button>
        {open.error !== null && <ErrorNotice error={open.error} onClose={open.reset} />}
      </Table.Td>
    </Table.Tr>
  );
}
