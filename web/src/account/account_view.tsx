import { Alert, Button, Group, PasswordInput, Stack, TextInput, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { ACCOUNT_KEY, useAccount } from "../session/account.js";
import { PASSWORD_MAX, passwordProblem } from "../session/password.js";
import { useCoversAny, useSession } from "../session/session_context.js";
import { EmptyState, QueryView } from "../states/states.js";
import { TokenList } from "../administration/token_list.js";
import { Sessions } from "./sessions.js";

const NAME_MAX = 200;

/** The account of the visitor: name, password, sessions and tokens over all organizations. */
export function AccountView() {
  const { session } = useSession();
  const account = useAccount();
  const none = <EmptyState title="No account" text="This token belongs to an organization and not to an account." />;
  return (
    <Stack gap="lg">
      <Title order={1} size="h3">Account</Title>
      {session?.user === undefined ? none : (
        <QueryView query={account} empty={(user) => (user === null ? none : undefined)}>
          {(user) => user !== null && <Account user={user} />}
        </QueryView>
      )}
    </Stack>
  );
}

function Account({ user }: { readonly user: v1.User }) {
  const mayChange = useCoversAny(v1.Scope.ADMINISTRATION);
  if (!mayChange) return <EmptyState title="Read only" text="This token is restricted, and does not change the account." />;
  return (
    <>
      <NameForm key={user.etag} user={user} />
      <PasswordForm />
      <Sessions />
      <AccountTokens />
    </>
  );
}

function NameForm({ user }: { readonly user: v1.User }) {
  const api = useApi();
  const queries = useQueryClient();
  const { session, start } = useSession();
  const [name, setName] = useState(user.name);
  const save = useMutation({
    mutationFn: async () => void (await api.service(v1.AccountService).updateAccount({ name: name.trim() })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ACCOUNT_KEY });
      if (session !== undefined) start({ ...session, user: { userId: user.userId, name: name.trim() } });
    },
  });
  return (
    <form onSubmit={(event) => { event.preventDefault(); save.mutate(); }}>
      <Stack gap="sm" maw={420}>
        <TextInput label="E-mail address" description="An administrator changes it." value={user.email} readOnly />
        <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} maxLength={NAME_MAX} required />
        {save.error !== null && <ErrorNotice error={save.error} />}
        <Group><Button size="xs" type="submit" loading={save.isPending} disabled={name.trim() === "" || name.trim() === user.name}>Save the name</Button></Group>
      </Stack>
    </form>
  );
}

function PasswordForm() {
  const api = useApi();
  const { session, end } = useSession();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [repeated, setRepeated] = useState("");
  const save = useMutation({
    mutationFn: async () => void (await api.service(v1.AccountService).changePassword({ currentPassword: current, newPassword: next })),
    onSuccess: () => {
      for (const clear of [setCurrent, setNext, setRepeated]) clear("");
      // The session of this tab ended, too.
      if (session?.isPassword === true) end();
    },
  });
  const problem = passwordProblem(next);
  const isRepeated = next === repeated;
  return (
    <form onSubmit={(event) => { event.preventDefault(); save.mutate(); }}>
      <Stack gap="sm" maw={420}>
        <Title order={2} size="h4">Password</Title>
        <PasswordInput label="Current password" autoComplete="current-password" value={current} onChange={(event) => setCurrent(event.currentTarget.value)} maxLength={PASSWORD_MAX} required />
        <PasswordInput label="New password" description="All your sessions end, and you sign in again. Account tokens stay valid." autoComplete="new-password" value={next} onChange={(event) => setNext(event.currentTarget.value)} error={next === "" ? undefined : problem} maxLength={PASSWORD_MAX} required />
        <PasswordInput label="New password again" autoComplete="new-password" value={repeated} onChange={(event) => setRepeated(event.currentTarget.value)} error={repeated === "" || isRepeated ? undefined : "The passwords differ."} maxLength={PASSWORD_MAX} required />
        {save.error !== null && <ErrorNotice error={save.error} />}
        {save.isSuccess && <Alert color="green" p="xs" role="status">The password is changed.</Alert>}
        <Group><Button size="xs" type="submit" loading={save.isPending} disabled={current === "" || problem !== undefined || !isRepeated}>Change the password</Button></Group>
      </Stack>
    </form>
  );
}

function AccountTokens() {
  const api = useApi();
  return (
    <TokenList
      title="Account tokens"
      queryKey={["account tokens"]}
      emptyText="An account token acts in all your organizations."
      create={(request) => api.service(v1.AccountService).createAccountToken(request)}
      load={(pageToken, signal) => api.service(v1.AccountService).listAccountTokens({ pageToken }, { signal })}
      revoke={(tokenId) => api.service(v1.AccountService).revokeAccountToken({ tokenId })}
    />
  );
}
