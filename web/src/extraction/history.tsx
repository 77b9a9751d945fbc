import { Stack, Text } from "@mantine/core";
import { v1 } from "folio-client";
import { formatTime } from "../format.js";
import { EmptyState, QueryView } from "../states/states.js";
import { useHistory } from "./queries.js";

const { EDITED, APPROVED, REJECTED, RESET } = v1.FieldChangeKind;
const VERBS: Partial<Record<v1.FieldChangeKind, string>> = { [EDITED]: "Changed", [APPROVED]: "Approved", [REJECTED]: "Rejected", [RESET]: "Decision withdrawn" };

/** The changes of a value and the decisions about it, newest first. */
export function History({ extractionId, path }: { readonly extractionId: string; readonly path: string }) {
  const history = useHistory(extractionId, path, true);
  return (
    <QueryView query={history} empty={(changes) => (changes.length === 0 ? <EmptyState title="No changes" /> : undefined)}>
      {(changes) => (
        <Stack gap={6} maw={360} mah={320} style={{ overflowY: "auto" }} component="ol" p={0} m={0}>
          {changes.map((change, index) => (
            <li key={index} style={{ listStyle: "none" }}>
              <Text size="sm">{`${VERBS[change.kind] ?? "Changed"} by ${author(change)}`}</Text>
              {change.kind === EDITED && <Text size="xs" className="foreign">{`${change.beforeJson ?? "no value"} → ${change.afterJson ?? "no value"}`}</Text>}
              <Text size="xs" c="dimmed">{formatTime(change.createTime)}</Text>
            </li>
          ))}
        </Stack>
      )}
    </QueryView>
  );
}

function author({ byAgent, byRule, userId }: v1.FieldChange): string {
  if (byRule) return "the review rule";
  return byAgent ? `the agent for ${userId}` : userId;
}
