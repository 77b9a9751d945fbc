import { Button, Code, Group, Select, Stack, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { indented } from "../agent/calls.js";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { EmptyState, QueryView } from "../states/states.js";
import { accessOf, allowedTools, toolNote, TOOLS_MAX, type Access } from "./mcp_tools.js";

const ACCESS = [
  { value: "none", label: "Not allowed" },
  { value: "read", label: "Allowed: only reads" },
  { value: "write", label: "Allowed: writes, waits for approval" },
];

interface McpToolsFormProps {
  readonly server: v1.McpServer;
  readonly onSaved: () => Promise<unknown>;
  readonly onReload: () => void;
}

/** The tools that a server offers now, of which agents may call the allowed ones. */
export function McpToolsForm({ server, onSaved, onReload }: McpToolsFormProps) {
  const api = useApi();
  const { mcpServerId } = server;
  // Opening the form calls the server; nothing else repeats this call.
  const tools = useQuery({
    queryKey: ["mcp tools", mcpServerId],
    queryFn: async ({ signal }) => (await api.service(v1.McpServerService).discoverMcpTools({ mcpServerId }, { signal })).mcpTools,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    gcTime: 0,
  });
  return (
    <QueryView query={tools} empty={(all) => (all.length === 0 ? <EmptyState title="No tools" text="The server offers no tools." /> : undefined)}>
      {(all) => <ToolList server={server} tools={all} onSaved={onSaved} onReload={onReload} />}
    </QueryView>
  );
}

function ToolList({ server, tools, onSaved, onReload }: McpToolsFormProps & { readonly tools: readonly v1.McpTool[] }) {
  const api = useApi();
  const { mcpServerId, etag } = server;
  const [access, setAccess] = useState(() => accessOf(server, tools));
  const allowed = allowedTools(tools, access);
  const save = useMutation({
    mutationFn: async () => void (await api.service(v1.McpServerService).updateMcpServer({ mcpServer: { mcpServerId, etag, allowedTools: allowed }, updateMask: { paths: ["allowed_tools"] } })),
    onSuccess: onSaved,
  });
  return (
    <Stack gap="md">
      {tools.map((tool) => {
        const chosen = access.get(tool.name) ?? "none";
        return (
          <Stack key={tool.name} gap={4} component="section" aria-label={tool.name}>
            <Group justify="space-between" wrap="nowrap">
              <Text size="sm" fw={500} className="foreign">{tool.name}</Text>
              <Select size="xs" aria-label={`Access to ${tool.name}`} data={ACCESS} value={chosen} onChange={(value) => setAccess(new Map([...access, [tool.name, (value ?? "none") as Access]]))} allowDeselect={false} w={260} />
            </Group>
            <Text size="xs" c="dimmed" className="foreign" lineClamp={4}>{tool.description}</Text>
            {toolNote(tool, chosen) !== "" && <Text size="xs" fw={500}>{toolNote(tool, chosen)}</Text>}
            <details><summary><Text span size="xs" c="dimmed">Arguments</Text></summary><Code block className="foreign" mah={240} style={{ overflow: "auto" }}>{indented(tool.inputSchemaJson)}</Code></details>
          </Stack>
        );
      })}
      {allowed.length > TOOLS_MAX && <Text size="sm" c="red" role="alert">{`A server has at most ${TOOLS_MAX} allowed tools.`}</Text>}
      {save.error !== null && <ErrorNotice error={save.error} actions={{ reload: onReload }} />}
      <Group justify="flex-end"><Button loading={save.isPending} disabled={allowed.length > TOOLS_MAX} onClick={() => save.mutate()}>Save the tools</Button></Group>
    </Stack>
  );
}
