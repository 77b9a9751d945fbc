import { Stack } from "@mantine/core";
import { randomId } from "folio-client";
import { useCallback, useState } from "react";
import { useSearchParams } from "wouter";
import { Conversation } from "./conversation.js";
import { useThreads } from "./queries.js";
import { ThreadBar } from "./thread_bar.js";

/** The conversation that the panel shows. A new one keeps its `key` when its first message creates the thread. */
interface PanelConversation {
  readonly key: string;
  readonly threadId: string;
  readonly text: string;
}

const shown = (threadId: string, text = ""): PanelConversation => ({ key: threadId || randomId(), threadId, text });

/** The conversations about a document. */
export function AgentPanel({ documentId }: { readonly documentId: string }) {
  const [parameters, setParameters] = useSearchParams();
  const named = parameters.get("thread") ?? "";
  const [current, setCurrent] = useState<PanelConversation>(() => shown(named));
  const [isChosen, setChosen] = useState(current.threadId !== "");
  const threads = useThreads(documentId);
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

  const setAddress = useCallback((threadId: string) => {
    setParameters((before) => {
      if (threadId === "") before.delete("thread");
      else before.set("thread", threadId);
      return before;
    }, { replace: true });
  }, [setParameters]);
  const open = useCallback((threadId: string, text = "") => {
    setChosen(true);
    setCurrent(shown(threadId, text));
    setAddress(threadId);
  }, [setAddress]);
  const onThread = useCallback((threadId: string) => {
    setChosen(true);
    setCurrent((before) => (before.threadId === threadId ? before : { ...before, threadId }));
    setAddress(threadId);
  }, [setAddress]);

  return (
    <Stack gap="sm">
      <ThreadBar documentId={documentId} threadId={current.threadId} onSelect={open} />
      <Conversation key={current.key} documentId={documentId} threadId={current.threadId} initialText={current.text} onThread={onThread} onNew={(text) => open("", text)} />
    </Stack>
  );
}
