import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Decision, v1 } from "folio-client";
import { lazy, Suspense, useEffect, useState } from "react";
import { formatCount, formatLeft } from "../format.js";
import { LoadingState } from "../states/states.js";
import { isApprovedAutomatically } from "./calls.js";
import { Markdown } from "./markdown.js";
import { Thinking } from "./thinking.js";
import { ToolCard, type WaitingCall } from "./tool_card.js";
import { usageSentence, type RoundState, type TurnState } from "./turn_state.js";
import type { Decisions } from "./use_turn.js";
import { UserMessage } from "./user_message.js";

const StepList = lazy(async () => ({ default: (await import("./step_list.js")).StepList }));
const AnswerCard = lazy(async () => ({ default: (await import("./answer_card.js")).AnswerCard }));

const CLOCK_MS = 20_000;

interface LiveTurnProps {
  readonly state: TurnState;
  /** The images of the message that started the turn. */
  readonly images: readonly v1.MessageImage[];
  /** Empty: the turn has not created its thread yet. */
  readonly threadId: string;
  readonly isStreaming: boolean;
  /** Ids of the waiting calls that the visitor may approve. Undefined: not read yet. */
  readonly approvable: readonly string[] | undefined;
  readonly decided: Decisions;
  readonly onDecide: (decisions: Decisions) => void;
}

/** The newest turn: its rounds as they happen, and the calls that wait. */
export function LiveTurn({ state, images, threadId, isStreaming, approvable, decided, onDecide }: LiveTurnProps) {
  const { rounds, phase, waiting, usage, endedTasks, steps, answer } = state;
  const isRunning = phase === "running" && isStreaming;
  const waitingCalls = waiting?.pending.filter(({ needsApproval }) => needsApproval) ?? [];
  const undecided = waitingCalls.filter(({ callId }) => !decided.has(callId));
  const mayDecideAll = undecided.length > 1 && undecided.every(({ callId }) => approvable?.includes(callId));
  const all = (decision: Decision) => () => onDecide(new Map(undecided.map(({ callId }) => [callId, decision])));

  const waitingCall = (call: v1.Call): WaitingCall | undefined => {
    if (!waitingCalls.some(({ callId }) => callId === call.callId)) return undefined;
    return {
      turnId: state.turnId,
      requirement: call.approvalRequirement,
      mayApprove: approvable?.includes(call.callId) ?? false,
      decision: decided.get(call.callId),
      isBusy: isStreaming,
      onDecide: (decision) => onDecide(new Map([[call.callId, decision]])),
    };
  };
  return (
    <Stack gap="xs" aria-busy={isRunning}>
      {state.userText !== "" && <UserMessage text={state.userText} images={images} threadId={threadId} />}
      {steps.length > 0 && <Suspense fallback={<LoadingState />}><StepList steps={steps} isRunning={isRunning} /></Suspense>}
      {rounds.map((round, index) => (
        <LiveRound key={round.round} round={steps.length > 0 ? { ...round, text: "" } : round} endedTasks={endedTasks} isRunning={isRunning && index === rounds.length - 1} waitingCall={waitingCall} />
      ))}
      {answer !== undefined && <Suspense fallback={<LoadingState />}><AnswerCard answer={answer} /></Suspense>}
      {isRunning && rounds.length === 0 && <Text size="sm" c="dimmed" role="status">The agent starts</Text>}
      {waiting !== undefined && (
        <Group gap="xs" role="group" aria-label="Waiting calls">
          {waiting.expireTime !== undefined && <Left deadline={timestampDate(waiting.expireTime)} />}
          {mayDecideAll && <Button size="xs" color="green" loading={isStreaming} onClick={all("approve")}>{`Approve all ${undecided.length} calls`}</Button>}
          {waitingCalls.length === 0 && <Button size="xs" loading={isStreaming} onClick={() => onDecide(new Map())}>Continue</Button>}
        </Group>
      )}
      {["cancelled", "expired", "superseded"].includes(phase) && <Text size="sm" c="dimmed" role="status">{`The turn was ${phase === "expired" ? "not decided in time" : phase}.`}</Text>}
      {usage !== undefined && phase !== "running" && (
        <Text size="xs" c="dimmed">{usageSentence(usage)}</Text>
      )}
    </Stack>
  );
}

interface LiveRoundProps {
  readonly round: RoundState;
  readonly endedTasks: TurnState["endedTasks"];
  readonly isRunning: boolean;
  readonly waitingCall: (call: v1.Call) => WaitingCall | undefined;
}

function LiveRound({ round, endedTasks, isRunning, waitingCall }: LiveRoundProps) {
  const { text, thinking, calls, results, running, delayed, model } = round;
  // Calls that ran without a decision are folded when the round is over.
  const isAutomatic = calls.length > 0 && !isRunning && calls.every((call) => !call.needsApproval && results.has(call.callId));
  const cards = calls.map((call) => (
    <ToolCard
      key={call.callId}
      callId={call.callId}
      name={call.name}
      argumentsJson={call.argumentsJson}
      result={results.get(call.callId)}
      isRunning={running.has(call.callId)}
      isDelayed={delayed.has(call.callId)}
      isAutomatic={isApprovedAutomatically(call, results.get(call.callId)?.status, running.has(call.callId))}
      waiting={waitingCall(call)}
      group={call.group}
      endedTasks={endedTasks}
    />
  ));
  return (
    <>
      <Thinking text={thinking} isRunning={isRunning && text === "" && calls.length === 0} />
      {text !== "" && <Markdown text={text} />}
      {model !== "" && <Badge size="xs" variant="outline" tt="none" title="The chosen model did not answer">{`answered by ${model}`}</Badge>}
      {isAutomatic ? (
        <details>
          <summary><Text span size="xs" c="dimmed">{formatCount(calls.length, "automatic tool call")}</Text></summary>
          <Stack gap="xs">{cards}</Stack>
        </details>
      ) : cards}
    </>
  );
}

function Left({ deadline }: { readonly deadline: Date }) {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), CLOCK_MS);
    return () => clearInterval(timer);
  }, []);
  return <Text size="xs" c="dimmed">{formatLeft(deadline, now)}</Text>;
}
