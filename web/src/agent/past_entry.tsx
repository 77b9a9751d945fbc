import { Stack, Text } from "@mantine/core";
import { lazy, memo, Suspense } from "react";
import { formatCount } from "../format.js";
import type { Entry } from "./history.js";
import { Markdown } from "./markdown.js";
import { PastUsage } from "./past_usage.js";
import { Thinking } from "./thinking.js";
import { ToolCard } from "./tool_card.js";
import { UserMessage } from "./user_message.js";

const PastAnswer = lazy(async () => ({ default: (await import("./past_answer.js")).PastAnswer }));

interface PastEntryProps {
  readonly entry: Entry;
  /** The thread that contains the message. */
  readonly threadId: string;
  /** `no`: the agent gives no typed answers. The entry shows the sources of a recent one at once, and those of an earlier one on demand. */
  readonly typed?: "no" | "recent" | "earlier";
  readonly onAskAgain?: () => void;
}

/** A message of an earlier turn. Its tool calls are folded. */
export const PastEntry = memo(function PastEntry({ entry, threadId, typed = "no", onAskAgain }: PastEntryProps) {
  if (entry.kind === "user") return <UserMessage text={entry.text} images={entry.images} threadId={threadId} {...(onAskAgain && { onAskAgain })} />;
  const { text, thinking, calls, endOf } = entry;
  return (
    <Stack gap="xs">
      <Thinking text={thinking} isRunning={false} />
      {text !== "" && (typed !== "no" && endOf !== "" ? <Suspense fallback={<Markdown text={text} />}><PastAnswer turnId={endOf} text={text} isRecent={typed === "recent"} /></Suspense> : <Markdown text={text} />)}
      {calls.length > 0 && (
        <details>
          <summary><Text span size="xs" c="dimmed">{formatCount(calls.length, "tool call")}</Text></summary>
          <Stack gap="xs">
            {calls.map(({ callId, name, argumentsJson, content, group }) => (
              <ToolCard key={callId} callId={callId} name={name} argumentsJson={argumentsJson} result={content === undefined ? undefined : { content }} group={group} />
            ))}
          </Stack>
        </details>
      )}
      {endOf !== "" && <PastUsage turnId={endOf} />}
    </Stack>
  );
}, (before, after) => before.entry === after.entry && (before.onAskAgain === undefined) === (after.onAskAgain === undefined));
