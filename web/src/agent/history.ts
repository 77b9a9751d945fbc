// The messages of a thread as entries of the panel. No I/O.
import type { v1 } from "folio-client";

/** A tool call of an earlier turn with its result. */
export interface PastCall {
  readonly callId: string;
  readonly name: string;
  readonly argumentsJson: string;
  readonly content: string | undefined;
}

export type Entry =
  | { readonly kind: "user"; readonly key: string; readonly count: number; readonly text: string }
  | { readonly kind: "agent"; readonly key: string; readonly text: string; readonly thinking: string; readonly calls: readonly PastCall[] };

/** Returns the entries of messages in their order. `openTurnId`: a turn that is shown by its events instead. */
export function entriesOf(messages: readonly v1.Message[], openTurnId: string): Entry[] {
  const results = new Map<string, string>();
  for (const { kind } of messages) if (kind.case === "tool") results.set(kind.value.callId, kind.value.content);
  return messages.flatMap((message, index): Entry[] => {
    if (openTurnId !== "" && message.turnId === openTurnId) return [];
    const key = `${message.turnId}-${message.count}-${index}`;
    const { kind } = message;
    if (kind.case === "user") return [{ kind: "user", key, count: message.count, text: kind.value.text }];
    if (kind.case !== "assistant") return [];
    const { text, thinking, calls } = kind.value;
    const past = calls.map(({ id, name, argumentsJson }) => ({ callId: id, name, argumentsJson, content: results.get(id) }));
    return [{ kind: "agent", key, text, thinking: thinking.map(({ text }) => text).join("\n\n"), calls: past }];
  });
}
