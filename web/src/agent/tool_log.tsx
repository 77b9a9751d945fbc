import { Badge, Button, Code, Group, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { v1 } from "folio-client";
import { formatTime } from "../format.js";
import { MoreButton, QueryView } from "../states/states.js";
import { indented, statusOf } from "./calls.js";
import { useToolUses } from "./queries.js";

/** The tool log of a conversation, which is read when the visitor opens it. */
export function ToolLog({ threadId }: { readonly threadId: string }) {
  const [isOpen, { toggle }] = useDisclosure(false);
  return (
    <Stack gap={4}>
      <Group><Button size="compact-xs" variant="subtle" color="gray" aria-expanded={isOpen} onClick={toggle}>Tool log</Button></Group>
      {isOpen && <ToolUses threadId={threadId} />}
    </Stack>
  );
}

/** The calls of a conversation, the oldest first. */
function ToolUses({ threadId }: { readonly threadId: string }) {
  const log = useToolUses(threadId);
  const uses = log.data?.pages.flatMap(({ toolUses }) => toolUses) ?? [];
  return (
    <QueryView query={log} empty={() => (uses.length === 0 ? <Text size="xs" c="dimmed" role="status">The conversation has no tool calls.</Text> : undefined)}>
      {() => (
        <Stack gap={4} component="section" aria-label="Tool log">
          {uses.map((use) => <LoggedCall key={use.callId} use={use} />)}
          {log.hasNextPage && <MoreButton onClick={() => void log.fetchNextPage()} loading={log.isFetchingNextPage} />}
        </Stack>
      )}
    </QueryView>
  );
}

/** A call: time, tool and node, and on demand its input and output. */
function LoggedCall({ use }: { readonly use: v1.ToolUse }) {
  const { tool, inputJson, output, status, time, node } = use;
  const [label, color] = statusOf(status);
  return (
    <details>
      <summary>
        <Text span size="xs" className="foreign">{[formatTime(time), tool, node].filter((part) => part !== "").join(" · ")}</Text>
        {label !== "" && <Badge component="span" ml={6} size="xs" variant="light" color={color}>{label}</Badge>}
      </summary>
      <Text size="xs" c="dimmed">Input</Text>
      <Code block className="foreign" mah={240} style={{ overflow: "auto" }}>{indented(inputJson)}</Code>
      {output !== "" && (
        <>
          <Text size="xs" c="dimmed">Output</Text>
          <Code block className="foreign" mah={240} style={{ overflow: "auto" }}>{indented(output)}</Code>
        </>
      )}
    </details>
  );
}
