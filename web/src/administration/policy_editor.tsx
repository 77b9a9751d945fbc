import { ActionIcon, Button, Card, Group, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { JsonEditor } from "../json/json_editor.js";
import { QueryView } from "../states/states.js";
import { PolicyDryRun } from "./policy_dry_run.js";
import { moved, policyOf, RULES_MAX, sentenceOf, textOfPolicy, withNewRule, withoutRule } from "./policy_text.js";

const KEY = ["policy"];

/** The rules that decide which tool calls run, wait or are denied. */
export function PolicyEditor() {
  const api = useApi();
  const policy = useQuery({ queryKey: KEY, queryFn: ({ signal }) => api.service(v1.PolicyService).getPolicy({}, { signal }), refetchOnWindowFocus: false });
  return <QueryView query={policy}>{({ policy, etag }) => <PolicyForm key={etag} stored={policy} etag={etag} />}</QueryView>;
}

function PolicyForm({ stored, etag }: { readonly stored: v1.Policy | undefined; readonly etag: string }) {
  const api = useApi();
  const queries = useQueryClient();
  const [text, setText] = useState(() => textOfPolicy(stored));
  const parsed = policyOf(text);
  const save = useMutation({
    mutationFn: async (policy: v1.Policy) => void (await api.service(v1.PolicyService).setPolicy({ policy, etag })),
    onSuccess: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  const reload = () => void queries.invalidateQueries({ queryKey: KEY });
  return (
    <Stack gap="sm">
      <Text size="sm" c="dimmed">The first rule that matches a call applies. If no rule matches, calls of tools that write wait for approval.</Text>
      {"policy" in parsed && parsed.policy.rules.map((rule, index) => (
        <Card key={index} withBorder padding="xs">
          <Group justify="space-between" wrap="nowrap">
            <div><Text size="sm" fw={500} className="foreign">{`${index + 1}. ${rule.name}`}</Text><Text size="xs" c="dimmed" className="foreign">{sentenceOf(rule)}</Text></div>
            <Group gap={4} wrap="nowrap">
              <ActionIcon variant="subtle" color="gray" aria-label={`Move ${rule.name} up`} disabled={index === 0} onClick={() => setText(textOfPolicy(moved(parsed.policy, index, -1)))}>↑</ActionIcon>
              <ActionIcon variant="subtle" color="gray" aria-label={`Move ${rule.name} down`} disabled={index === parsed.policy.rules.length - 1} onClick={() => setText(textOfPolicy(moved(parsed.policy, index, 1)))}>↓</ActionIcon>
              <ActionIcon variant="subtle" color="red" aria-label={`Remove ${rule.name}`} onClick={() => setText(textOfPolicy(withoutRule(parsed.policy, index)))}>✕</ActionIcon>
            </Group>
          </Group>
        </Card>
      ))}
      {"policy" in parsed && <Group><Button size="compact-xs" variant="subtle" disabled={parsed.policy.rules.length >= RULES_MAX} onClick={() => setText(textOfPolicy(withNewRule(parsed.policy)))}>Add a rule</Button></Group>}
      <JsonEditor label="Policy" value={text} onChange={setText} error={"problem" in parsed ? parsed.problem : undefined} minRows={8} />
      {save.error !== null && <ErrorNotice error={save.error} actions={{ reload }} />}
      <Group><Button size="xs" loading={save.isPending} disabled={"problem" in parsed || text === textOfPolicy(stored)} onClick={() => "policy" in parsed && save.mutate(parsed.policy)}>Save the policy</Button></Group>
      <PolicyDryRun policy={"policy" in parsed ? parsed.policy : undefined} />
    </Stack>
  );
}
