// The queries and changes of threads.
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { threadFilter, type Subject } from "./subject.js";

const THREADS_MAX = 50;
const MESSAGES = 100;
/** Number of tool calls of a page of the tool log. */
const TOOL_USES = 50;
/** Delay between two reads of a thread whose calls wait, because another user or tab may decide, or of the log of a running task. In milliseconds. */
const WAITING_MS = 4_000;

export const threadsKey = ({ key }: Subject) => ["threads", key] as const;
export const threadKey = (threadId: string) => ["thread", threadId] as const;

/** Returns the newest threads of a subject. */
export function useThreads(subject: Subject) {
  const api = useApi();
  return useQuery({
    queryKey: threadsKey(subject),
    queryFn: async ({ signal }) => {
      const lists = await Promise.all(subject.profiles.map((profile) => api.service(v1.ThreadService).listThreads({ filter: threadFilter(subject, profile), pageSize: THREADS_MAX }, { signal })));
      return newestFirst(lists.flatMap(({ threads }) => threads));
    },
  });
}

/** Returns threads in the order of their creation, the newest first. */
export function newestFirst(threads: readonly v1.Thread[]): v1.Thread[] {
  const time = ({ createTime }: v1.Thread) => (createTime === undefined ? 0 : timestampMs(createTime));
  return [...threads].sort((a, b) => time(b) - time(a));
}

/** Returns the pages of the messages of a thread, the newest page first. `isLog`: the thread is the log of a task, which no stream follows. */
export function useThread(threadId: string, isLog = false) {
  const api = useApi();
  return useInfiniteQuery({
    queryKey: threadKey(threadId),
    queryFn: ({ pageParam, signal }) =>
      api.service(v1.ThreadService).getThread({ threadId, pageSize: MESSAGES, pageToken: pageParam, orderBy: "create_time desc" }, { signal }),
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
    enabled: threadId !== "",
    refetchInterval: ({ state }) => {
      const open = state.data?.pages[0]?.openTurn;
      return open !== undefined && (isLog || open.status === v1.TurnStatus.AWAITING_APPROVAL) ? WAITING_MS : false;
    },
  });
}

/** Returns the pages of the tool log of a thread, the oldest call first. The log is read again with the messages of the thread. */
export function useToolUses(threadId: string) {
  const api = useApi();
  return useInfiniteQuery({
    queryKey: [...threadKey(threadId), "tool uses"],
    queryFn: ({ pageParam, signal }) => api.service(v1.ThreadService).listToolUses({ threadId, pageSize: TOOL_USES, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
  });
}

/** Returns an ended turn, which does not change. Null: the server does not know it. */
export function usePastTurn(turnId: string, isWanted: boolean) {
  const api = useApi();
  return useQuery({
    queryKey: ["past turn", turnId],
    queryFn: async ({ signal }) => (await api.service(v1.ConversationService).getTurn({ turnId }, { signal })).turn ?? null,
    enabled: isWanted,
    staleTime: Infinity,
  });
}

export const imageKey = (imageId: string) => ["message image", imageId] as const;

/** Returns an image of a message as a file. `threadId`: a thread that contains the image; empty: the visitor uploaded it. */
export function useMessageImage(imageId: string, threadId: string) {
  const api = useApi();
  return useQuery({
    queryKey: imageKey(imageId),
    queryFn: async ({ signal }) => {
      const { image, data } = await api.service(v1.ConversationService).getImage({ imageId, threadId }, { signal });
      return new Blob([data as Uint8Array<ArrayBuffer>], { type: image?.mediaType ?? "" });
    },
    staleTime: Infinity,
  });
}

/** Returns the models for chats with the default one. */
export function useModels() {
  const api = useApi();
  return useQuery({
    queryKey: ["models", "chat"],
    queryFn: ({ signal }) => api.service(v1.ModelService).listModels({ use: v1.ModelUse.CHAT, pageSize: 200 }, { signal }),
    staleTime: 60_000,
  });
}

/** Returns the effect that a waiting call would have. `argumentsJson`: edited arguments, which the server checks; empty: those of the call. */
export function usePreview(turnId: string, callId: string, argumentsJson: string, isWanted = true) {
  const api = useApi();
  return useQuery({
    queryKey: ["preview", turnId, callId, argumentsJson],
    queryFn: ({ signal }) => api.service(v1.ConversationService).previewToolCall({ turnId, callId, argumentsJson }, { signal }),
    placeholderData: keepPreviousData,
    enabled: isWanted,
  });
}

/** Returns the tools of an agent. */
export function useTools(profile: string) {
  const api = useApi();
  return useQuery({
    queryKey: ["tools", profile],
    queryFn: async ({ signal }) => (await api.service(v1.ConversationService).listTools({ profile, pageSize: 200 }, { signal })).tools,
    staleTime: Infinity,
  });
}

export function useRenameThread(subject: Subject) {
  const api = useApi();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (request: { threadId: string; title: string }) => api.service(v1.ThreadService).renameThread(request),
    onSuccess: () => queries.invalidateQueries({ queryKey: threadsKey(subject) }),
  });
}

export function useDeleteThread(subject: Subject) {
  const api = useApi();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (threadId: string) => api.service(v1.ThreadService).deleteThread({ threadId }),
    onSuccess: () => queries.invalidateQueries({ queryKey: threadsKey(subject) }),
  });
}
