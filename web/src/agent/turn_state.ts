// The state of a turn from its events. No I/O, no clock.
import type { v1 } from "folio-client";
import { formatCount, formatNumber } from "../format.js";
import { answerOf, stepsOf, typedAnswer, withEnd, withStart, type Step, type TypedAnswer } from "./steps.js";

export type TurnPhase = "running" | "awaiting" | "completed" | "failed" | "cancelled" | "expired" | "superseded";

/** A model call and its tool calls. */
export interface RoundState {
  readonly round: number;
  readonly text: string;
  readonly thinking: string;
  readonly calls: readonly v1.Call[];
  readonly results: ReadonlyMap<string, Pick<v1.CallResult, "status" | "content">>;
  /** Ids of the calls that run. */
  readonly running: ReadonlySet<string>;
  /** Ids of the running calls that wait for the store. */
  readonly delayed: ReadonlySet<string>;
  /** The model that answered, if it is not that of the turn: a fallback. Empty: the model of the turn. */
  readonly model: string;
}

export interface TurnState {
  readonly turnId: string;
  readonly threadId: string;
  readonly model: string;
  readonly userText: string;
  /** The images of the message. Empty: none, or the turn was started elsewhere. */
  readonly userImages: readonly v1.MessageImage[];
  readonly phase: TurnPhase;
  readonly rounds: readonly RoundState[];
  /** The round whose calls wait. Undefined: no call waits. */
  readonly waiting: v1.AwaitingApproval | undefined;
  readonly error: v1.Error | undefined;
  readonly isRetriable: boolean;
  readonly usage: v1.Usage | undefined;
  /** The states of ended tasks by the id of their thread. */
  readonly endedTasks: ReadonlyMap<string, v1.TaskStatus>;
  /** The nodes of the agent's graph that have started. Empty: the agent has none. */
  readonly steps: readonly Step[];
  /** Undefined: the agent has no graph, or has not answered. */
  readonly answer: TypedAnswer | undefined;
  /** Number of the last event. */
  readonly lastEvent: bigint;
}

/** Returns the tokens and credits of a turn. A server that charges no credits reports 0. */
export function usageSentence({ inputTokens, outputTokens, modelCalls, credits }: v1.Usage): string {
  const parts = [`${formatNumber(inputTokens)} tokens read`, `${formatNumber(outputTokens)} written`, formatCount(modelCalls, "model call")];
  if (credits > 0n) parts.push(formatCount(credits, "credit"));
  return parts.join(", ");
}

/** Returns the state before the first event. */
export function startedTurn(userText: string, userImages: readonly v1.MessageImage[] = []): TurnState {
  return {
    turnId: "",
    threadId: "",
    model: "",
    userText,
    userImages,
    phase: "running",
    rounds: [],
    waiting: undefined,
    error: undefined,
    isRetriable: false,
    usage: undefined,
    endedTasks: new Map(),
    steps: [],
    answer: undefined,
    lastEvent: 0n,
  };
}

/** Returns the state after events. */
export function afterEvents(state: TurnState, events: readonly v1.Event[]): TurnState {
  return events.reduce(afterEvent, state);
}

function afterEvent(before: TurnState, event: v1.Event): TurnState {
  const state: TurnState = { ...before, turnId: event.turnId, lastEvent: event.number };
  const { kind } = event;
  switch (kind.case) {
    case "turnStarted":
      return { ...startedTurn(state.userText, state.userImages), turnId: event.turnId, lastEvent: event.number, threadId: kind.value.threadId, model: kind.value.model };
    case "snapshot":
      return kind.value.turn === undefined ? state : { ...ofTurn(kind.value.turn), userImages: state.userImages, endedTasks: state.endedTasks, lastEvent: event.number };
    case "roundStarted":
      // A later attempt of a round voids its earlier deltas.
      return { ...state, phase: "running", waiting: undefined, rounds: [...state.rounds.filter(({ round }) => round < kind.value.round), emptyRound(kind.value.round)] };
    case "nodeStarted":
      return { ...state, steps: withStart(state.steps, kind.value) };
    case "nodeEnded":
      return { ...state, steps: withEnd(state.steps, kind.value.round, kind.value.node), answer: answerOf(kind.value.node) ?? state.answer };
    case "thinkingDelta":
      return inLastRound(state, (round) => ({ ...round, thinking: round.thinking + kind.value.text }));
    case "textDelta":
      return inLastRound(state, (round) => ({ ...round, text: round.text + kind.value.text }));
    case "toolCalls":
      return inLastRound(state, (round) => ({ ...round, calls: kind.value.calls }));
    case "toolStarted":
      return inLastRound({ ...state, phase: "running", waiting: undefined }, (round) => ({ ...round, running: new Set(round.running).add(kind.value.callId) }));
    case "waitingForStore":
      return inLastRound(state, (round) => ({ ...round, delayed: new Set(round.delayed).add(kind.value.callId) }));
    case "toolResult":
      return inLastRound({ ...state, phase: "running", waiting: undefined }, (round) => withResult(round, kind.value));
    case "tasksStarted":
      return kind.value.group === undefined ? state : withGroup(state, kind.value.group);
    case "taskEnded":
      return kind.value.task === undefined ? state : { ...state, endedTasks: new Map(state.endedTasks).set(kind.value.task.threadId, kind.value.status) };
    case "roundFinished":
      return inLastRound({ ...state, usage: kind.value.usage ?? state.usage }, (round) => ({ ...round, model: kind.value.model === state.model ? "" : kind.value.model }));
    case "awaitingApproval":
      return { ...inLastRound(state, (round) => ({ ...round, calls: kind.value.pending })), phase: "awaiting", waiting: kind.value };
    case "completed":
      return { ...completed(state, kind.value), phase: "completed", waiting: undefined };
    case "failed":
      return { ...state, phase: "failed", waiting: undefined, error: kind.value.error, isRetriable: kind.value.retriable };
    case "cancelled":
    case "expired":
    case "superseded":
      return { ...state, phase: kind.case, waiting: undefined };
    default:
      return state;
  }
}

function emptyRound(round: number): RoundState {
  return { round, text: "", thinking: "", calls: [], results: new Map(), running: new Set(), delayed: new Set(), model: "" };
}

function inLastRound(state: TurnState, change: (round: RoundState) => RoundState): TurnState {
  const last = state.rounds.at(-1) ?? emptyRound(1);
  return { ...state, rounds: [...state.rounds.slice(0, -1), change(last)] };
}

function withResult(round: RoundState, { callId, status, content }: v1.ToolResult): RoundState {
  const [running, delayed] = [new Set(round.running), new Set(round.delayed)];
  running.delete(callId);
  delayed.delete(callId);
  return { ...round, running, delayed, results: new Map(round.results).set(callId, { status, content }) };
}

function withGroup(state: TurnState, group: v1.TaskGroup): TurnState {
  return inLastRound(state, (round) => ({ ...round, calls: round.calls.map((call) => (call.callId === group.callId ? { ...call, group } : call)) }));
}

/** The closing event has the whole turn, also the parts of events that were missed. */
function completed(state: TurnState, closing: v1.Completed): TurnState {
  const { rounds, text, thinking, usage } = closing;
  const known = rounds.length > 0 ? rounds.map(ofRound) : [...state.rounds];
  const last = known.at(-1) ?? emptyRound(1);
  if (last.text !== text) {
    if (last.calls.length > 0) known.push({ ...emptyRound(last.round + 1), text, thinking });
    else known.splice(-1, 1, { ...last, text, thinking: thinking || last.thinking });
  }
  const steps = rounds.length > 0 ? stepsOf(rounds) : state.steps;
  return { ...state, rounds: known, steps, answer: typedAnswer(closing) ?? state.answer, usage: usage ?? state.usage };
}

function ofRound({ round, text, thinking, calls, results }: v1.Round): RoundState {
  const byCall = new Map(results.map(({ callId, status, content }) => [callId, { status, content }]));
  return { ...emptyRound(round), text, thinking, calls, results: byCall };
}

const PHASES: readonly TurnPhase[] = ["running", "running", "awaiting", "completed", "failed", "cancelled", "expired", "superseded"];

function ofTurn(turn: v1.Turn): TurnState {
  return {
    ...startedTurn(turn.userText),
    turnId: turn.turnId,
    threadId: turn.threadId,
    model: turn.model,
    phase: PHASES[turn.status] ?? "running",
    rounds: turn.rounds.map(ofRound),
    steps: stepsOf(turn.rounds),
    answer: typedAnswer(turn) ?? turn.rounds.map(({ node }) => answerOf(node)).find((answer) => answer !== undefined),
    error: turn.error,
    isRetriable: turn.retriable,
    usage: turn.usage,
  };
}
