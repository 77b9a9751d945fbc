import { Badge, Button, Card, Code, Group, Stack, Text, Textarea } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { v1, type Decision } from "folio-client";
import { lazy, Suspense, useState } from "react";
import { JsonEditor } from "../json/json_editor.js";
import { usePermits } from "../session/session_context.js";
import { LoadingState } from "../states/states.js";
import { approversOf, editedArguments, editVerdict, indented, problemsOf, REASON_MAX, statusOf, summaryOf } from "./calls.js";
import { usePreview } from "./queries.js";
import { TaskList } from "./task_list.js";
import { tasksOf } from "./tasks.js";

/** The tool that replaces the columns of a table, whose arguments are shown as a table. */
const DEFINE_COLUMNS = "define_columns";
const ColumnsPreview = lazy(async () => ({ default: (await import("./columns_preview.js")).ColumnsPreview }));
const EffectPreview = lazy(async () => ({ default: (await import("./effect_preview.js")).EffectPreview }));

/** Delay between an edit of the arguments and its check by a preview of its effect, in milliseconds. */
const PREVIEW_DELAY_MS = 500;
const NO_TASKS: ReadonlyMap<string, v1.TaskStatus> = new Map();

interface ToolCardProps {
  readonly callId: string;
  readonly name: string;
  readonly argumentsJson: string;
  readonly result?: { readonly status?: v1.CallStatus; readonly content: string } | undefined;
  readonly isRunning?: boolean;
  /** True if the call waits for the store, and continues without an action of the visitor. */
  readonly isDelayed?: boolean;
  /** True if the call needed no decision of a person. */
  readonly isAutomatic?: boolean;
  /** The actions of the card if the call waits. Undefined: the call does not wait. */
  readonly waiting?: WaitingCall | undefined;
  /** The tasks of a call of `run_tasks`. Undefined: the call has started none. */
  readonly group?: v1.TaskGroup | undefined;
  /** The states of ended tasks by the id of their thread. */
  readonly endedTasks?: ReadonlyMap<string, v1.TaskStatus> | undefined;
}

export interface WaitingCall {
  readonly turnId: string;
  readonly requirement: v1.ApprovalRequirement | undefined;
  /** True if the visitor may approve the call. */
  readonly mayApprove: boolean;
  /** A decision that is being sent, or was sent while other calls of the round wait. */
  readonly decision: Decision | undefined;
  readonly isBusy: boolean;
  readonly onDecide: (decision: Decision) => void;
}

/** A tool call: its summary, arguments and result, and the decision about it. */
export function ToolCard({ callId, name, argumentsJson, result, isRunning = false, isDelayed = false, isAutomatic = false, waiting, group, endedTasks = NO_TASKS }: ToolCardProps) {
  const [label, color] = result?.status === undefined ? ["", "gray"] : statusOf(result.status);
  return (
    <Card withBorder padding="xs" id={`call-${callId}`} tabIndex={-1} component="section" aria-label={`Tool call ${name}`}>
      <Group justify="space-between" wrap="nowrap" gap="xs">
        <Text size="sm" fw={500} className="foreign">{summaryOf(name, argumentsJson)}</Text>
        {waiting !== undefined && <Badge size="sm" color="yellow">Waits</Badge>}
        {isAutomatic && <Badge size="sm" variant="outline" color="gray">Approved automatically</Badge>}
        {isDelayed && <Badge size="sm" color="orange" role="status">Waits for the store</Badge>}
        {isRunning && !isDelayed && <Badge size="sm" color="blue" role="status">Running</Badge>}
        {label !== "" && <Badge size="sm" variant="light" color={color}>{label}</Badge>}
      </Group>
      {name === DEFINE_COLUMNS && <Suspense fallback={<LoadingState />}><ColumnsPreview argumentsJson={argumentsJson} /></Suspense>}
      <details open={waiting !== undefined && name !== DEFINE_COLUMNS}>
        <summary><Text span size="xs" c="dimmed">{`${name}: arguments`}</Text></summary>
        <Code block className="foreign" mah={240} style={{ overflow: "auto" }}>{indented(argumentsJson)}</Code>
      </details>
      {result !== undefined && result.content !== "" && (
        <details>
          <summary><Text span size="xs" c="dimmed">Result</Text></summary>
          <Code block className="foreign" mah={240} style={{ overflow: "auto" }}>{indented(result.content)}</Code>
        </details>
      )}
      {group !== undefined && <TaskList tasks={tasksOf(group, endedTasks, result?.content ?? "")} isOpen={result === undefined} />}
      {waiting !== undefined && <DecisionForm callId={callId} name={name} argumentsJson={argumentsJson} waiting={waiting} />}
    </Card>
  );
}

/** Approves, edits or rejects a call. */
function DecisionForm({ callId, name, argumentsJson, waiting }: Pick<ToolCardProps, "callId" | "name" | "argumentsJson"> & { readonly waiting: WaitingCall }) {
  const [mode, setMode] = useState<"choose" | "edit" | "reject">("choose");
  const [text, setText] = useState("");
  const { turnId, requirement, mayApprove, decision, isBusy, onDecide } = waiting;
  // Viewers read waiting calls, but not previews.
  const hasPreview = usePermits(v1.Role.MEMBER, v1.Scope.CONVERSATIONS);
  const [editedText] = useDebouncedValue(mode === "edit" ? text : "", PREVIEW_DELAY_MS);
  const isEdited = mode === "edit" && editedText !== "" && editedText !== indented(argumentsJson);
  const previewed = isEdited && "value" in editedArguments(editedText) ? editedText : "";
  const check = usePreview(turnId, callId, previewed, hasPreview && previewed !== "");
  const answer = previewed === "" || check.isPlaceholderData ? undefined : check.data;
  // A check that failed, such as one while the store is down, does not prevent the decision.
  const isUncheckable = !hasPreview || (check.isError && text === previewed);
  const verdict = editVerdict(text, indented(argumentsJson), isUncheckable ? undefined : {
    text: answer === undefined ? "" : previewed,
    hasProblem: (answer?.problem ?? "") !== "",
    isRefused: answer?.argumentsRefused ?? false,
  });

  if (decision !== undefined) {
    return <Text size="xs" c="dimmed" role="status">{`${decisionLabel(decision)}. The round runs when all its calls are decided.`}</Text>;
  }
  const open = (mode: "edit" | "reject", text: string) => () => {
    setMode(mode);
    setText(text);
  };
  const runEdited = () => {
    const edited = editedArguments(text);
    if ("value" in edited) onDecide({ edited: edited.value });
  };
  const cancel = <Button size="xs" variant="subtle" color="gray" onClick={() => setMode("choose")}>Back</Button>;
  return (
    <Stack gap={6} mt={6}>
      {hasPreview && (
        <Suspense fallback={<LoadingState label="Reading the effect" />}>
          <EffectPreview turnId={turnId} callId={callId} argumentsJson={previewed} />
        </Suspense>
      )}
      <Text size="xs" c="dimmed">{`${approversOf(requirement)}${mayApprove ? "" : " You may reject it."}`}</Text>
      {mode === "choose" && (
        <Group gap="xs">
          <Button size="xs" color="green" data-decision="approve" disabled={!mayApprove} loading={isBusy} onClick={() => onDecide("approve")} aria-label={`Approve ${name}`}>Approve</Button>
          <Button size="xs" variant="default" disabled={!mayApprove || isBusy} onClick={open("edit", indented(argumentsJson))} aria-label={`Edit ${name}`}>Edit</Button>
          <Button size="xs" variant="default" data-decision="reject" disabled={isBusy} onClick={open("reject", "")} aria-label={`Reject ${name}`}>Reject</Button>
        </Group>
      )}
      {mode === "edit" && (
        <>
          <JsonEditor label="Arguments" value={text} onChange={setText} error={verdict.error} problems={verdict.error === true ? problemsOf(answer?.problem ?? "") : undefined} />
          <Text size="xs" c="dimmed" role="status">{verdict.note}</Text>
          <Group gap="xs"><Button size="xs" color="green" loading={isBusy} disabled={!verdict.canApprove} onClick={runEdited}>Approve edited call</Button>{cancel}</Group>
        </>
      )}
      {mode === "reject" && (
        <>
          <Textarea aria-label="Reason for the model" placeholder="Reason for the model (optional)" value={text} onChange={(event) => setText(event.currentTarget.value)} maxLength={REASON_MAX} autosize autoFocus />
          <Group gap="xs"><Button size="xs" color="red" loading={isBusy} onClick={() => onDecide({ reject: text })}>Reject call</Button>{cancel}</Group>
        </>
      )}
    </Stack>
  );
}

function decisionLabel(decision: Decision): string {
  if (decision === "approve") return "Approved";
  if (decision === "leave") return "Left to another user";
  return "edited" in decision ? "Approved with edited arguments" : "Rejected";
}
