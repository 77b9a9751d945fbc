import { Alert, Button, Card, Center, PasswordInput, Stack, Tabs, TextInput, Title } from "@mantine/core";
import { useState, type FormEvent } from "react";
import { ErrorNotice } from "../errors/error_notice.js";
import { PASSWORD_MAX } from "./password.js";
import type { Session } from "./session.js";
import { signInWithPassword, signInWithToken, type Connect } from "./sign_in.js";
import { useSession } from "./session_context.js";

const EMAIL_MAX = 254;
/** Maximum length of a token: JWTs are longer than the tokens of Folio. */
const TOKEN_MAX = 8_192;

/** Signs in with a password, or with a token: an access token, an account token, or a JWT of an issuer. */
export function SignInView({ connect }: { readonly connect: Connect }) {
  const { start } = useSession();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const [isHomeless, setHomeless] = useState(false);

  const submit = (signIn: (form: FormData) => Promise<Session>) => (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    setHomeless(false);
    signIn(new FormData(event.currentTarget))
      .then((session) => (session.organizationId === "" ? setHomeless(true) : start(session)))
      .catch(setError)
      .finally(() => setBusy(false));
  };
  const password = submit((form) => signInWithPassword(connect, text(form, "email"), text(form, "password")));
  const token = submit((form) => signInWithToken(connect, text(form, "token").trim()));

  return (
    <Center component="main" mih="100vh" p="md">
      <Card withBorder w="100%" maw={400} padding="xl">
        <Title order={1} size="h3" mb="md">Sign in to Folio</Title>
        <Tabs defaultValue="password" keepMounted={false} onChange={() => setError(undefined)}>
          <Tabs.List mb="md" aria-label="Way to sign in">
            <Tabs.Tab value="password">Password</Tabs.Tab>
            <Tabs.Tab value="token">Token</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="password">
            <form onSubmit={password}>
              <Stack>
                <TextInput name="email" type="email" label="E-mail address" autoComplete="username" maxLength={EMAIL_MAX} required autoFocus />
                <PasswordInput name="password" label="Password" autoComplete="current-password" maxLength={PASSWORD_MAX} required />
                <Button type="submit" loading={busy}>Sign in</Button>
              </Stack>
            </form>
          </Tabs.Panel>
          <Tabs.Panel value="token">
            <form onSubmit={token}>
              <Stack>
                <PasswordInput
                  name="token"
                  label="Token"
                  description="An access token, an account token, or a JWT of your identity provider. This tab forgets it when it is closed."
                  autoComplete="off"
                  maxLength={TOKEN_MAX}
                  required
                  autoFocus
                />
                <Button type="submit" loading={busy}>Continue</Button>
              </Stack>
            </form>
          </Tabs.Panel>
        </Tabs>
        {error !== undefined && <ErrorNotice error={error} />}
        {isHomeless && (
          <Alert color="yellow" title="No organization" role="alert" mt="md">
            You are not a member of an organization. An administrator can add you.
          </Alert>
        )}
      </Card>
    </Center>
  );
}

function text(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value : "";
}
