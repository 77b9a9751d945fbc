import { Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { errorOfMessage, FolioError, v1 } from "folio-client";
import { Fragment, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useApi } from "../api/api.js";
import { DropArea } from "../documents/drop_area.js";
import { ErrorNotice, type ActionHandlers } from "../errors/error_notice.js";
import { usePermits } from "../session/session_context.js";
import { EmptyState, LoadingState, MoreButton } from "../states/states.js";
import { Composer, EMPTY_DRAFT, isSendable, type Draft } from "./composer.js";
import { entriesOf, groupsOf, imagesOf, messagesOf } from "./history.js";
import { LiveTurn } from "./live_turn.js";
import { mentionOf } from "./mentions.js";
import { PastEntry } from "./past_entry.js";
import { PastOutcome } from "./past_outcome.js";
import { threadKey, useThread } from "./queries.js";
import { COORDINATOR, isReadOnly, type Subject } from "./subject.js";
import { useAttachments } from "./use_attachments.js";
import { useStoredTurn, useTurn, type Decisions, type Outgoing } from "./use_turn.js";

const NO_DECISIONS: Decisions = new Map();
/** Number of entries whose typed answers are read at once, earlier ones on demand, and of entries with the ends of turns that gave no answer. */
const RECENT = 20;

/** The part of a message that a person writes. */
type MessageContent = Pick<Outgoing, "text" | "images">;

interface ConversationProps {
  readonly subject: Subject;
  /** Empty: the first message creates the thread. */
  readonly threadId: string;
  readonly initialText: string;
  readonly initialImages: readonly v1.MessageImage[];
  readonly onThread: (threadId: string) => void;
  /** Starts another conversation with a text and images. */
  readonly onNew: (text: string, images: readonly v1.MessageImage[]) => void;
}

/**
 * Returns the message of a draft. `isNew`: the message begins a conversation, whose agent the draft chooses. `mentioned`: keys of resources
 * that each message of the conversation mentions.
 */
export function messageOf(draft: Draft, images: readonly v1.MessageImage[], ifPending: v1.IfPending, isNew: boolean, mentioned: readonly string[] = []): Outgoing {
  const { text, model, mode, autoApprovedTools, mentions, keep, isDivided } = draft;
  return {
    text,
    images,
    model,
    ifPending,
    autoApprove: mode === "all",
    autoApprovedTools: mode === "tools" ? [...autoApprovedTools] : [],
    mentions: [...new Set([...mentioned, ...mentions])].map(mentionOf).filter((mention) => mention !== undefined),
    ...(keep !== undefined && { truncateToMessageCount: keep }),
    ...(isNew && isDivided && { profile: COORDINATOR }),
  };
}

/** A thread: its messages, its newest turn, and the composer. */
export function Conversation({ subject, threadId, initialText, initialImages, onThread, onNew }: ConversationProps) {
  const api = useApi();
  const queries = useQueryClient();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.CONVERSATIONS);
  const thread = useThread(threadId);
  const [draft, setDraft] = useState<Draft>({ ...EMPTY_DRAFT, text: initialText });
  const [decided, setDecided] = useState<Decisions>(NO_DECISIONS);
  const attachments = useAttachments(initialImages);
  const { put, restore } = attachments;
  const onRefused = useCallback((message: Outgoing) => {
    setDraft((before) => ({ ...before, text: before.text || message.text }));
    restore(message.images);
  }, [restore]);
  const turn = useTurn({ subject, threadId, onThread, onRefused });
  const { state, isStreaming, send, decide, resume, clearError } = turn;
  const stop = useMutation({ mutationFn: (turnId: string) => api.service(v1.ConversationService).cancelTurn({ turnId }) });
  const end = useRef<HTMLDivElement>(null);

  const open = thread.data?.pages[0]?.openTurn;
  useStoredTurn(turn, open, thread.dataUpdatedAt);
  const round = state?.waiting && `${state.turnId}/${state.waiting.round}`;
  useEffect(() => setDecided(NO_DECISIONS), [round]);
  useEffect(() => {
    // The call returns a promise in new browsers, which an effect must not return.
    void end.current?.scrollIntoView({ block: "nearest" });
  }, [state?.rounds.length, state?.phase]);

  const pages = thread.data?.pages;
  const messages = useMemo(() => messagesOf(pages ?? []), [pages]);
  const entries = useMemo(() => entriesOf(messages, state?.turnId ?? "", groupsOf(pages ?? [])), [messages, pages, state?.turnId]);
  const isWaiting = state?.phase === "awaiting";
  const isRunning = isStreaming && !isWaiting;
  const isRefused = threadId === "" && state === undefined && subject.refusal !== undefined;

  const own: MessageContent = { text: draft.text, images: attachments.images };
  const submit = (ifPending: v1.IfPending, { text, images } = own) => {
    const message = messageOf({ ...draft, text }, images, ifPending, threadId === "", subject.mentions);
    if (!isSendable({ ...draft, text }) || !attachments.isReady) return;
    // Messages after the kept ones are dropped on the server.
    if (draft.keep !== undefined) void queries.cancelQueries({ queryKey: threadKey(threadId) });
    send(message);
    setDraft({ ...draft, text: "", mentions: [], keep: undefined });
    put([]);
  };
  const onDecide = (decisions: Decisions) => {
    setDecided((before) => new Map([...before, ...decisions]));
    decide(decisions);
  };
  const reload = () => {
    clearError();
    setDecided(NO_DECISIONS);
    void queries.invalidateQueries({ queryKey: threadKey(threadId) });
  };
  const liveImages = state === undefined ? [] : state.userImages.length > 0 ? state.userImages : imagesOf(messages, state.turnId);
  const last: MessageContent = { text: state?.userText ?? "", images: liveImages };
  const next = own.text === "" ? last : own;
  const openTurnId = open?.turnId ?? state?.turnId ?? "";
  const actions: ActionHandlers = {
    "stop turn": () => { stop.mutate(openTurnId); clearError(); },
    supersede: () => submit(v1.IfPending.SUPERSEDE),
    "send again": () => submit(v1.IfPending.REJECT, next),
    "new thread": () => onNew(next.text, next.images),
    "show approvers": () => document.querySelector<HTMLElement>('[id^="call-"]:has(button)')?.focus(),
    reload,
    retry: reload,
  };
  // A refused decision is none: the card offers it again.
  const { error } = turn;
  useEffect(() => {
    if (error !== undefined) setDecided(NO_DECISIONS);
  }, [error]);

  return (
    <Stack gap="sm">
      {thread.hasNextPage && <MoreButton onClick={() => void thread.fetchNextPage()} loading={thread.isFetchingNextPage} />}
      {threadId !== "" && thread.isPending && state === undefined && <LoadingState />}
      {thread.error !== null && <ErrorNotice error={thread.error} actions={{ retry: () => void thread.refetch() }} />}
      {entries.length === 0 && state === undefined && !thread.isLoading && <EmptyState title={subject.title} text={subject.text} />}
      {entries.map((entry, index) => (
        <Fragment key={entry.key}>
          <PastEntry entry={entry} threadId={threadId} typed={!isReadOnly(subject) ? "no" : index >= entries.length - RECENT ? "recent" : "earlier"} {...(canWrite && entry.kind === "user" && { onAskAgain: () => { setDraft({ ...draft, text: entry.text, keep: entry.count - 1 }); put(entry.images); } })} />
          {entry.unanswered !== "" && entry.unanswered !== open?.turnId && index >= entries.length - RECENT && <PastOutcome turnId={entry.unanswered} />}
        </Fragment>
      ))}
      {state !== undefined && (
        <LiveTurn
          state={state}
          images={liveImages}
          threadId={threadId}
          isStreaming={isStreaming}
          approvable={open?.turnId === state.turnId ? open.approvableCallIds : undefined}
          decided={decided}
          onDecide={onDecide}
        />
      )}
      {turn.error !== undefined && <ErrorNotice error={turn.error} actions={actions} onClose={clearError} />}
      {state?.phase === "failed" && (
        <ErrorNotice error={errorOfMessage(state.error)} actions={{ ...actions, ...(state.isRetriable ? { retry: resume } : { retry: () => submit(v1.IfPending.REJECT, last) }) }} />
      )}
      {state?.phase === "expired" && turn.error === undefined && <ErrorNotice error={new FolioError("NOT_FOUND", "TURN_EXPIRED", "")} actions={actions} />}
      {stop.error !== null && <ErrorNotice error={stop.error} onClose={stop.reset} />}
      {canWrite && isRefused && <Text size="sm" role="status">{subject.refusal}</Text>}
      {canWrite && !isRefused && (
        <DropArea onFiles={attachments.add} disabled={false} label="Drop the images to attach them">
          <Composer
            subject={subject}
            draft={draft}
            onDraft={setDraft}
            attachments={attachments}
            threadId={threadId}
            isNew={threadId === "" && state === undefined}
            isRunning={isRunning}
            isWaiting={isWaiting}
            onSend={() => submit(isWaiting ? v1.IfPending.SUPERSEDE : v1.IfPending.REJECT)}
            onStop={() => openTurnId !== "" && stop.mutate(openTurnId)}
          />
        </DropArea>
      )}
      <div ref={end} />
    </Stack>
  );
}
