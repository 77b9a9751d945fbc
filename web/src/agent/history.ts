// The messages of a thread as entries of the panel. No I/O.
import type { v1 } from "folio-client";

/** A tool call of an earlier turn with its result. */
export interface PastCall {
  readonly callId: string;
  readonly name: string;
  readonly argumentsJson: string;
  readonly content: string | undefined;
  /** The tasks of a call of `run_tasks`. Undefined: the call has started none. */
  readonly group: v1.TaskGroup | undefined;
}

/**
 * A message. `endOf`: the id of the turn if the message is its last one; empty: it is not, or the message was copied into the thread.
 * `unanswered`: the id of the turn if the message is its last one and gives no answer, because the turn is open or ended without one; else empty.
 */
export type Entry =
  | { readonly kind: "user"; readonly key: string; readonly count: number; readonly text: string; readonly images: readonly v1.MessageImage[]; readonly unanswered: string }
  | { readonly kind: "agent"; readonly key: string; readonly text: string; readonly thinking: string; readonly calls: readonly PastCall[]; readonly endOf: string; readonly unanswered: string };

/** Returns the messages of the pages of a thread, oldest first. `pages`: the newest first, each with its newest message first. */
export function messagesOf(pages: readonly Pick<v1.GetThreadResponse, "messages">[]): v1.Message[] {
  return [...pages].reverse().flatMap(({ messages }) => [...messages].reverse());
}

/** Returns the tasks of the calls of the pages of a thread. */
export function groupsOf(pages: readonly Pick<v1.GetThreadResponse, "taskGroups">[]): v1.TaskGroup[] {
  return pages.flatMap(({ taskGroups }) => taskGroups);
}

/** Returns the images of the message with which a turn began. Empty: it had none, or the message is not among these. */
export function imagesOf(messages: readonly v1.Message[], turnId: string): readonly v1.MessageImage[] {
  return messages.flatMap((message) => (turnId !== "" && message.turnId === turnId && message.kind.case === "user" ? message.kind.value.images : []));
}

/** Returns the entries of messages in their order. `openTurnId`: a turn that is shown by its events instead. `groups`: the tasks of calls. */
export function entriesOf(messages: readonly v1.Message[], openTurnId: string, groups: readonly v1.TaskGroup[] = []): Entry[] {
  const groupOf = new Map(groups.map((group) => [group.callId, group]));
  const results = new Map<string, string>();
  for (const { kind } of messages) if (kind.case === "tool") results.set(kind.value.callId, kind.value.content);
  const ends = new Map<string, v1.Message>();
  for (const message of messages) if (message.kind.case === "assistant") ends.set(message.turnId, message);
  return messages.flatMap((message, index): Entry[] => {
    if (openTurnId !== "" && message.turnId === openTurnId) return [];
    const key = `${message.turnId}-${message.count}-${index}`;
    const { kind } = message;
    const end = ends.get(message.turnId);
    if (kind.case === "user") return [{ kind: "user", key, count: message.count, text: kind.value.text, images: kind.value.images, unanswered: end === undefined ? message.turnId : "" }];
    if (kind.case !== "assistant") return [];
    const { text, thinking, calls } = kind.value;
    const isEnd = end === message;
    const past = calls.map(({ id, name, argumentsJson }) => ({ callId: id, name, argumentsJson, content: results.get(id), group: groupOf.get(id) }));
    return [{ kind: "agent", key, text, thinking: thinking.map(({ text }) => text).join("\n\n"), calls: past, endOf: isEnd ? message.turnId : "", unanswered: isEnd && calls.length > 0 ? message.turnId : "" }];
  });
}
