import { Stack, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import { useThreads } from "../agent/queries.js";
import { ThreadPanel } from "../agent/thread_panel.js";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { assistantSubject, DOCUMENTS_MAX, scopeOf, setScope, type Members, type Scope } from "./scope.js";
import { ScopeSelect, ThreadScope } from "./scope_select.js";

/** The conversations with the assistant about all documents, or about those that the visitor chooses. The address contains the choice. */
export function AssistantView() {
  const [parameters, setParameters] = useSearchParams();
  const scope = useMemo(() => scopeOf(parameters), [parameters]);
  const members = useMembers(scope.collectionId);
  const subject = useMemo(() => assistantSubject(scope, members.data), [scope, members.data]);
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
      {members.error !== null && <ErrorNotice error={members.error} actions={{ retry: () => void members.refetch() }} />}
      <ThreadPanel subject={subject} header={header} startsNew={scope.kind !== "all"} />
    </Stack>
  );
}

/** Returns the documents of a collection, as many as a thread can have. */
function useMembers(collectionId: string) {
  const api = useApi();
  return useQuery({
    queryKey: ["collections", "members", collectionId],
    queryFn: async ({ signal }): Promise<NonNullable<Members>> => {
      const { documents, nextPageToken } = await api.service(v1.CollectionService).listCollectionDocuments({ collectionId, pageSize: DOCUMENTS_MAX }, { signal });
      return { documentIds: documents.map(({ documentId }) => documentId), hasMore: nextPageToken !== "" };
    },
    enabled: collectionId !== "",
  });
}
