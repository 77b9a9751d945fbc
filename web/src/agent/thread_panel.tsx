import { Stack } from "@mantine/core";
import { randomId, type v1 } from "folio-client";
import { useCallback, useMemo, useState, type ReactNode } from "react";
import { useSearchParams } from "wouter";
import { Conversation } from "./conversation.js";
import { useThreads } from "./queries.js";
import type { Subject } from "./subject.js";
import { ThreadBar } from "./thread_bar.js";

/** The conversation that the panel shows. A new one keeps its `key` when its first message creates the thread. */
interface PanelConversation {
  readonly key: string;
  readonly threadId: string;
  readonly text: string;
  readonly images: readonly v1.MessageImage[];
}

interface ThreadPanelProps {
  readonly subject: Subject;
  /** Returns the subject of a conversation, with the same key. It receives the id of its thread; empty: the conversation has not begun. Undefined: `subject`. */
  readonly subjectFor?: (threadId: string) => Subject;
  /** Shown above a conversation. It receives the id of its thread. Empty: the conversation has not begun. */
  readonly header?: (threadId: string) => ReactNode;
  /** True: a new conversation opens first. False: the newest one. */
  readonly startsNew?: boolean;
  /** The first text of the composer if no conversation exists. */
  readonly firstText?: string;
  /** Parameters of the address that belong to the open conversation, and are removed when another existing one opens. */
  readonly ownParameters?: readonly string[];
}

const NO_PARAMETERS: readonly string[] = [];

const NO_IMAGES: readonly v1.MessageImage[] = [];

const shown = (threadId: string, text = "", images = NO_IMAGES): PanelConversation => ({ key: threadId || randomId(), threadId, text, images });

/** The conversations of a subject. The address contains the thread of the open one. */
export function ThreadPanel({ subject, subjectFor, header, startsNew = false, firstText = "", ownParameters = NO_PARAMETERS }: ThreadPanelProps) {
  const [parameters, setParameters] = useSearchParams();
  const named = parameters.get("thread") ?? "";
  const [current, setCurrent] = useState<PanelConversation>(() => shown(named, named === "" ? firstText : ""));
  const [isChosen, setChosen] = useState(current.threadId !== "" || startsNew);
  const threads = useThreads(subject);
  const newest = threads.data?.[0]?.threadId;
  // The address changed: by a link, or by the buttons of the browser.
  const [address, setSeenAddress] = useState(named);
  if (named !== address) {
    setSeenAddress(named);
    if (named !== current.threadId) {
      setChosen(true);
      setCurrent(shown(named));
    }
  }
  // The newest conversation opens, unless the address or the visitor names another one.
  if (!isChosen && newest !== undefined) {
    setChosen(true);
    setCurrent(shown(newest));
  }

  const setAddress = useCallback((threadId: string, removed: readonly string[]) => {
    setParameters((before) => {
      for (const name of removed) before.delete(name);
      if (threadId === "") before.delete("thread");
      else before.set("thread", threadId);
      return before;
    }, { replace: true });
  }, [setParameters]);
  const open = useCallback((threadId: string, text = "", images = NO_IMAGES) => {
    setChosen(true);
    setCurrent(shown(threadId, text, images));
    setAddress(threadId, threadId === "" ? NO_PARAMETERS : ownParameters);
  }, [setAddress, ownParameters]);
  const onThread = useCallback((threadId: string) => {
    setChosen(true);
    setCurrent((before) => (before.threadId === threadId ? before : { ...before, threadId }));
    setAddress(threadId, NO_PARAMETERS);
  }, [setAddress]);
  const own = useMemo(() => subjectFor?.(current.threadId) ?? subject, [subjectFor, current.threadId, subject]);

  return (
    <Stack gap="sm">
      <ThreadBar subject={subject} threadId={current.threadId} onSelect={open} />
      {header?.(current.threadId)}
      <Conversation key={current.key} subject={own} threadId={current.threadId} initialText={current.text} initialImages={current.images} onThread={onThread} onNew={(text, images) => open("", text, images)} />
    </Stack>
  );
}
