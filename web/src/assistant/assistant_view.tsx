import { Stack, Title } from "@mantine/core";
import { useCallback, useMemo } from "react";
import { useSearchParams } from "wouter";
import { useThreads } from "../agent/queries.js";
import { ThreadPanel } from "../agent/thread_panel.js";
import { ToolLog } from "../agent/tool_log.js";
import { assistantSubject, SCOPE_PARAMETERS, scopeOf, scopeOfMemory, setScope, type Scope } from "./scope.js";
import { ScopeSelect, ThreadScope } from "./scope_select.js";

/**
 * The conversations with the assistant about all documents, or about those that the visitor chooses. The address contains the choice.
 * Without one, a conversation keeps the tag or the collection of its newest answered message.
 */
export function AssistantView() {
  const [parameters, setParameters] = useSearchParams();
  const chosen = useMemo(() => scopeOf(parameters), [parameters]);
  const isChosen = parameters.has("about");
  const subject = useMemo(() => assistantSubject(chosen), [chosen]);
  const threads = useThreads(subject);
  const scopeFor = useCallback((threadId: string) => {
    const thread = threads.data?.find((one) => one.threadId === threadId);
    return isChosen || thread === undefined ? chosen : scopeOfMemory(thread.workingState?.profileStateJson ?? "");
  }, [isChosen, chosen, threads.data]);
  const subjectFor = useCallback((threadId: string) => assistantSubject(scopeFor(threadId)), [scopeFor]);
  const onChange = (changed: Scope) => setParameters((before) => setScope(before, changed), { replace: true });
  const header = (threadId: string) => {
    if (threadId === "") return <ScopeSelect scope={chosen} onChange={onChange} />;
    const thread = threads.data?.find((one) => one.threadId === threadId);
    return (
      <>
        {thread !== undefined && <ThreadScope documentIds={thread.documentIds} scope={scopeFor(threadId)} onChange={onChange} />}
        <ToolLog key={threadId} threadId={threadId} />
      </>
    );
  };
  return (
    <Stack gap="sm" maw={900}>
      <Title order={1} size="h3">Assistant</Title>
      <ThreadPanel subject={subject} subjectFor={subjectFor} header={header} startsNew={chosen.kind !== "all"} ownParameters={SCOPE_PARAMETERS} />
    </Stack>
  );
}
