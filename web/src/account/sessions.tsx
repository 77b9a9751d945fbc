import { Badge, Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { useSession } from "../session/session_context.js";

const KEY = ["account sessions"];

/** The sessions of the visitor that have not ended. The end of the session of this tab is a sign-out. */
export function Sessions() {
  const api = useApi();
  const queries = useQueryClient();
  const { end } = useSession();
  const close = useMutation({
    mutationFn: async ({ sessionId }: v1.AccountSession) => void (await api.service(v1.AccountService).endAccountSession({ sessionId })),
    onSuccess: (_, { current }) => (current ? end() : undefined),
    onSettled: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  return (
    <>
      {close.error !== null && <ErrorNotice error={close.error} onClose={close.reset} />}
      <ListView<v1.AccountSession>
        title="Sessions"
        queryKey={KEY}
        load={async (pageToken, signal) => {
          const { sessions, nextPageToken } = await api.service(v1.AccountService).listAccountSessions({ pageToken }, { signal });
          return { items: sessions, nextPageToken };
        }}
        keyOf={({ sessionId }) => sessionId}
        emptyText="A sign-in with a password starts a session."
        columns={[
          { label: "Signed in", cell: ({ createTime, current }) => <>{formatTime(createTime)} {current && <Badge size="sm" variant="light">This session</Badge>}</> },
          { label: "Ends", cell: ({ expireTime }) => formatTime(expireTime) },
          { label: "", cell: (session) => <Button size="compact-xs" variant="subtle" color="red" aria-label={session.current ? "End this session" : `End the session of ${formatTime(session.createTime)}`} onClick={() => close.mutate(session)}>End</Button> },
        ]}
      />
    </>
  );
}
