import { Stack, Title } from "@mantine/core";
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import { useThreads } from "../agent/queries.js";
import { ThreadPanel } from "../agent/thread_panel.js";
import { assistantSubject, scopeOf, setScope, type Scope } from "./scope.js";
import { ScopeSelect, ThreadScope } from "./scope_select.js";

/** The conversations with the assistant about all documents, or about those that the visitor chooses. The address contains the choice. */
export function AssistantView() {
  const [parameters, setParameters] = useSearchParams();
  const scope = useMemo(() => scopeOf(parameters), [parameters]);
  const subject = useMemo(() => assistantSubject(scope), [scope]);
  const threads = useThreads(subject);
  const onChange = (changed: Scope) => setParameters((before) => setScope(before, changed), { replace: true });
  const header = (threadId: string) => {
    if (threadId === "") return <ScopeSelect scope={scope} onChange={onChange} />;
    const thread = threads.data?.find((one) => one.threadId === threadId);
    return thread !== undefined && <ThreadScope documentIds={thread.documentIds} scope={scope} onChange={onChange} />;
  };
  return (
    <Stack gap="sm" maw={900}>
      <Title order={1} size="h3">Assistant</Title>
      <ThreadPanel subject={subject} header={header} startsNew={scope.kind !== "all"} />
    </Stack>
  );
}
