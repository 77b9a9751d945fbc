// The items that wait for the visitor.
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useMutation, useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi, useStream } from "../api/api.js";

const KEY = ["inbox"] as const;
const ITEMS_MAX = 100;
/** Interval in which an incomplete list is read again. */
const INCOMPLETE_MS = 60_000;

export interface Inbox {
  /** The items, the oldest first. */
  readonly items: readonly v1.InboxItem[];
  /** True if approvals may be missing, because their index was lost or unavailable a short time ago. */
  readonly isIncomplete: boolean;
}

export const proposalsKey = (documentId: string) => [...KEY, "proposals", documentId] as const;

/** Returns the items that wait for the visitor. */
export function useInbox(isWanted: boolean) {
  const api = useApi();
  return useQuery({
    queryKey: KEY,
    queryFn: async ({ signal }): Promise<Inbox> => {
      const { items, incomplete } = await api.service(v1.InboxService).listInboxItems({ pageSize: ITEMS_MAX }, { signal });
      return { items, isIncomplete: incomplete };
    },
    refetchInterval: ({ state }) => (state.data?.isIncomplete === true ? INCOMPLETE_MS : false),
    enabled: isWanted,
  });
}

/** Follows the items of the inbox while a slot for a stream is free. */
export function useLiveInbox(isWanted: boolean): void {
  const api = useApi();
  const queries = useQueryClient();
  useStream(isWanted ? "inbox" : undefined, async (signal) => {
    try {
      for await (const { change } of api.watchInbox("", { signal })) {
        if (change.case === "item") {
          update(queries, (all) => withItem(all, change.value));
          const { subject } = change.value;
          if (subject.case === "proposal") void queries.invalidateQueries({ queryKey: proposalsKey(subject.value.documentId) });
        }
        if (change.case === "removedItemId") {
          update(queries, (all) => all.filter(({ itemId }) => itemId !== change.value));
          void queries.invalidateQueries({ queryKey: [...KEY, "proposals"] });
        }
      }
    } catch {
      // The query reports what the server refuses; a lost stream leaves its last items.
      await queries.invalidateQueries({ queryKey: KEY });
    }
  }, true);
}

function update(queries: QueryClient, change: (all: readonly v1.InboxItem[]) => readonly v1.InboxItem[]): void {
  queries.setQueryData<Inbox>(KEY, (inbox) => ({ items: change(inbox?.items ?? []), isIncomplete: inbox?.isIncomplete ?? false }));
}

/** Returns the items with a new or changed one, the oldest first. */
export function withItem(all: readonly v1.InboxItem[], item: v1.InboxItem): v1.InboxItem[] {
  const time = ({ createTime }: v1.InboxItem) => (createTime === undefined ? 0 : timestampMs(createTime));
  return [...all.filter(({ itemId }) => itemId !== item.itemId), item].sort((a, b) => time(a) - time(b));
}

/** Returns the change of an item, after which the list is read again. */
export function useDecision<V>(mutationFn: (variables: V) => Promise<unknown>) {
  const queries = useQueryClient();
  return useMutation({ mutationFn, onSettled: () => queries.invalidateQueries({ queryKey: KEY }) });
}
