// React hooks for the newest turn of a thread: `useTurn` sends messages and decisions and streams the events of the turn,
// `useStoredTurn` joins a turn that was started elsewhere.
import { useQueryClient } from "@tanstack/react-query";
import { randomId, type Approval, type ChatOptions, type Decision, type v1 } from "folio-client";
import { useCallback, useEffect, useRef, useState } from "react";
import { useApi, useStream, type Api } from "../api/api.js";
import { threadKey, threadsKey } from "./queries.js";
import type { Subject } from "./subject.js";
import { afterEvents, startedTurn, type TurnState } from "./turn_state.js";

/** A message to send. */
export interface Outgoing extends Omit<ChatOptions, "approve" | "signal" | "requestId" | "threadId" | "documentIds" | "imageIds"> {
  readonly text: string;
  readonly images: readonly v1.MessageImage[];
}

/** Decisions by the id of their call. */
export type Decisions = ReadonlyMap<string, Decision>;

/** The action that opens a stream of events. */
type Start =
  | { readonly kind: "chat"; readonly message: Outgoing; readonly threadId: string; readonly requestId: string; readonly threadRequestId: string }
  | { readonly kind: "watch" }
  | { readonly kind: "resume" }
  | { readonly kind: "decide"; readonly decisions: Decisions };

interface UseTurn {
  readonly subject: Subject;
  /** Empty: the first message creates the thread. */
  readonly threadId: string;
  /** Called with the id of the thread when a turn starts. */
  readonly onThread: (threadId: string) => void;
  /** Called with a message that the server refused. */
  readonly onRefused: (message: Outgoing) => void;
}

export function useTurn({ subject, threadId, onThread, onRefused }: UseTurn) {
  const api = useApi();
  const queries = useQueryClient();
  const [state, setState] = useState<TurnState>();
  const [start, setStart] = useState<{ readonly key: string; readonly start: Start }>();
  const [error, setError] = useState<unknown>();
  const live = useRef<TurnState>(undefined);
  const endedAt = useRef(0);

  const begin = useCallback((start: Start, initial?: TurnState) => {
    if (initial !== undefined) {
      live.current = initial;
      setState(initial);
    }
    setError(undefined);
    setStart({ key: randomId(), start });
  }, []);

  useStream(start?.key, async (signal) => {
    if (start === undefined) return;
    const waiting: v1.Event[] = [];
    let frame = 0;
    // An animation frame renders all events that arrived since the previous frame.
    const flush = () => {
      frame = 0;
      if (waiting.length === 0 || live.current === undefined) return;
      live.current = afterEvents(live.current, waiting.splice(0));
      setState(live.current);
    };
    try {
      for await (const event of streamOf(api, subject, start.start, live.current, signal)) {
        if (event.kind.case === "turnStarted") onThread(event.kind.value.threadId);
        waiting.push(event);
        if (frame === 0) frame = requestAnimationFrame(flush);
      }
    } catch (reason) {
      setError(reason);
      if (start.start.kind === "chat" && (live.current?.turnId ?? "") === "" && waiting.length === 0) {
        onRefused(start.start.message);
        live.current = undefined;
        setState(undefined);
      }
    } finally {
      if (frame !== 0) cancelAnimationFrame(frame);
      flush();
      if (!signal.aborted) {
        setStart(undefined);
        const thread = live.current?.threadId || threadId;
        // A read of the thread that is in progress may have started before the turn paused, and then lacks the calls that
        // wait. Such a read is cancelled, so that the thread is read again.
        await queries.cancelQueries({ queryKey: threadKey(thread) });
        await queries.invalidateQueries({ queryKey: threadKey(thread), refetchType: "none" });
        endedAt.current = Date.now();
        // The agent may have changed the data of these queries.
        for (const queryKey of [threadKey(thread), threadsKey(subject), ["tags"], ["prompts"], ["schemas"], ["stack"]]) void queries.invalidateQueries({ queryKey });
      }
    }
  });

  const send = useCallback((message: Outgoing) => {
    const chat = { kind: "chat", message, threadId, requestId: randomId(), threadRequestId: randomId() } as const;
    begin(chat, startedTurn(message.text, message.images));
  }, [begin, threadId]);
  const decide = useCallback((decisions: Decisions) => begin({ kind: "decide", decisions }), [begin]);
  const resume = useCallback(() => begin({ kind: "resume" }), [begin]);
  const watch = useCallback((initial?: TurnState) => begin({ kind: "watch" }, initial), [begin]);
  const clearError = useCallback(() => setError(undefined), []);
  return { state, error, isStreaming: start !== undefined, endedAt, send, decide, resume, watch, clearError };
}

/** Opens the stream of an action. A stream of an existing turn begins after the last event of `state`. */
async function* streamOf(api: Api, { documentIds, profiles, createThread }: Subject, start: Start, state: TurnState | undefined, signal: AbortSignal): AsyncGenerator<v1.Event, void> {
  const { turnId = "", lastEvent = 0n } = state ?? {};
  if (start.kind === "chat" && turnId === "") {
    const { message, threadId, requestId, threadRequestId } = start;
    const { text, images, ...options } = message;
    const known = threadId === "" && createThread !== undefined ? await createThread(threadRequestId) : threadId;
    const target = known === "" ? { documentIds: [...documentIds], profile: profiles[0] } : { threadId: known };
    yield* api.chat(text, { ...target, ...options, imageIds: images.map(({ imageId }) => imageId), requestId, signal });
  } else if (start.kind === "resume" && state?.phase === "failed") {
    yield* api.resume(turnId, undefined, { signal });
  } else if (start.kind === "decide") {
    const approve = ({ callId }: Approval): Decision => start.decisions.get(callId) ?? "leave";
    // The stream begins with the event `awaiting_approval`, which contains the calls that the decisions are about.
    yield* api.watchTurn(turnId, lastEvent, approve, { signal });
  } else {
    yield* api.watchTurn(turnId, lastEvent + 1n, undefined, { signal });
  }
}

type Turn = ReturnType<typeof useTurn>;

/**
 * Watches the open turn of the stored thread if `turn` does not have its newest events: after a reload of the page, or if another
 * tab or user acted. `readAt`: the time at which the thread was read.
 */
export function useStoredTurn(turn: Turn, open: v1.Turn | undefined, readAt: number): void {
  const { state, isStreaming, endedAt, watch } = turn;
  useEffect(() => {
    if (isStreaming || readAt < endedAt.current) return;
    if (open !== undefined && open.turnId !== state?.turnId) {
      watch({ ...startedTurn(open.userText), turnId: open.turnId, threadId: open.threadId, model: open.model });
    } else if (state?.phase === "awaiting" && (open === undefined || open.nextEvent > state.lastEvent + 1n)) {
      watch();
    }
  }, [open, readAt, state, isStreaming, endedAt, watch]);
}
