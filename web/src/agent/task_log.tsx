import { Anchor, Stack, Text } from "@mantine/core";
import { FolioError, v1 } from "folio-client";
import { useMemo } from "react";
import { Link } from "wouter";
import { MoreButton, QueryView } from "../states/states.js";
import { entriesOf, groupsOf, messagesOf } from "./history.js";
import { PastEntry } from "./past_entry.js";
import { useThread } from "./queries.js";

/** The log of a task: the messages of its thread. The tasks of a child turn have logs of their own. */
export function TaskLog({ threadId }: { readonly threadId: string }) {
  const thread = useThread(threadId, true);
  const pages = thread.data?.pages;
  const entries = useMemo(() => entriesOf(messagesOf(pages ?? []), "", groupsOf(pages ?? [])), [pages]);
  if (thread.error instanceof FolioError && thread.error.code === "NOT_FOUND" && pages === undefined) {
    return <Text size="xs" c="dimmed" role="status">The task has no log: it has not started, or the log was deleted.</Text>;
  }
  const isWaiting = pages?.[0]?.openTurn?.status === v1.TurnStatus.AWAITING_APPROVAL;
  return (
    <QueryView query={thread} empty={() => (entries.length === 0 ? <Text size="xs" c="dimmed" role="status">The log has no messages yet.</Text> : undefined)}>
      {() => (
        <Stack gap="xs" pl="sm" component="section" aria-label="Log of the task">
          {thread.hasNextPage && <MoreButton onClick={() => void thread.fetchNextPage()} loading={thread.isFetchingNextPage} />}
          {entries.map((entry) => <PastEntry key={entry.key} entry={entry} threadId={threadId} />)}
          {isWaiting && <Text size="xs">A call waits for a decision in the <Anchor component={Link} href="/inbox" size="xs" underline="always">inbox</Anchor>.</Text>}
        </Stack>
      )}
    </QueryView>
  );
}
