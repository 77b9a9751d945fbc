import { Badge, Button, Checkbox, Group, Modal, PasswordInput, Switch, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { PASSWORD_MAX, passwordProblem } from "../session/password.js";
import { useValues } from "../states/use_values.js";
import { SaveForm } from "./save_form.js";
import { TypedConfirmation } from "./typed_confirmation.js";

const KEY = ["users"];
const NAME_MAX = 200;
const EMAIL_MAX = 254;

type OpenForm = { readonly form: "settings"; readonly user: v1.User | undefined } | { readonly form: "password" | "delete"; readonly user: v1.User };

/** All users of the installation, which sign in with a password. */
export function Users() {
  const api = useApi();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [shown, setShown] = useState<OpenForm>();
  const onSaved = async () => {
    await queries.invalidateQueries({ queryKey: KEY });
    setShown(undefined);
  };
  const remove = useMutation({ mutationFn: async (request: { userId: string; email: string }) => void (await api.service(v1.UserService).deleteUser(request)), onSuccess: onSaved });
  const show = (next: OpenForm) => () => {
    remove.reset();
    setShown(next);
  };
  const filter = nameFilter(text);
  const title = { settings: shown?.user === undefined ? "New user" : "User", password: "New password", delete: "Delete the user" }[shown?.form ?? "settings"];
  return (
    <>
      <ListView<v1.User>
        title="Users"
        queryKey={[...KEY, { filter }]}
        load={async (pageToken, signal) => {
          const { users, nextPageToken } = await api.service(v1.UserService).listUsers({ filter, pageToken, orderBy: "name" }, { signal });
          return { items: users, nextPageToken };
        }}
        keyOf={({ userId }) => userId}
        emptyText="No user matches."
        onSearch={setText}
        columns={[
          { label: "Name", cell: ({ name, platform }) => <><bdi>{name}</bdi>{platform && <Badge size="xs" ml={6}>platform</Badge>}</> },
          { label: "E-mail address", cell: ({ email }) => email },
          { label: "Id", cell: ({ userId }) => userId },
          { label: "Created", cell: ({ createTime }) => formatTime(createTime) },
          {
            label: "",
            cell: (user) => (
              <Group gap={4} wrap="nowrap">
                <Button size="compact-xs" variant="subtle" aria-label={`Edit ${user.name}`} onClick={show({ form: "settings", user })}>Edit</Button>
                <Button size="compact-xs" variant="subtle" aria-label={`Reset the password of ${user.name}`} onClick={show({ form: "password", user })}>Password</Button>
                <Button size="compact-xs" variant="subtle" color="red" aria-label={`Delete ${user.name}`} onClick={show({ form: "delete", user })}>Delete</Button>
              </Group>
            ),
          },
        ]}
      >
        <Button size="xs" onClick={show({ form: "settings", user: undefined })}>New user</Button>
      </ListView>
      <Modal opened={shown !== undefined} onClose={() => setShown(undefined)} title={title}>
        {shown?.form === "settings" && <UserForm user={shown.user} onSaved={onSaved} />}
        {shown?.form === "password" && <PasswordForm user={shown.user} onSaved={onSaved} />}
        {shown?.form === "delete" && (
          <TypedConfirmation
            text="The user leaves all organizations and can no longer sign in. What the user created is kept."
            expected={shown.user.email}
            label="Delete the user"
            loading={remove.isPending}
            error={remove.error}
            onConfirm={(email) => remove.mutate({ userId: shown.user.userId, email })}
          />
        )}
      </Modal>
    </>
  );
}

interface UserFormProps {
  /** Undefined: a new user. */
  readonly user: v1.User | undefined;
  readonly onSaved: () => Promise<unknown>;
}

function UserForm({ user, onSaved }: UserFormProps) {
  const api = useApi();
  const [values, change] = useValues({ name: user?.name ?? "", email: user?.email ?? "", platform: user?.platform ?? false });
  const [password, setPassword] = useState("");
  const save = useMutation({
    mutationFn: async () => {
      const stored = { ...values, name: values.name.trim(), email: values.email.trim() };
      if (user === undefined) return void (await api.service(v1.UserService).createUser({ user: stored, password }));
      await api.service(v1.UserService).updateUser({ user: { ...stored, userId: user.userId, etag: user.etag }, updateMask: { paths: ["name", "email", "platform"] } });
    },
    onSuccess: onSaved,
  });
  const problem = user === undefined ? passwordProblem(password) : undefined;
  return (
    <SaveForm onSubmit={() => save.mutate()} isPending={save.isPending} error={save.error} isValid={values.name.trim() !== "" && values.email.trim() !== "" && problem === undefined} onReload={() => void onSaved()}>
      <TextInput label="Name" value={values.name} onChange={(event) => change({ name: event.currentTarget.value })} maxLength={NAME_MAX} required data-autofocus />
      <TextInput label="E-mail address" type="email" value={values.email} onChange={(event) => change({ email: event.currentTarget.value })} maxLength={EMAIL_MAX} required />
      {user === undefined && <PasswordInput label="First password" autoComplete="new-password" value={password} onChange={(event) => setPassword(event.currentTarget.value)} error={password === "" ? undefined : problem} maxLength={PASSWORD_MAX} required />}
      <Switch label="May administer the platform" checked={values.platform} onChange={(event) => change({ platform: event.currentTarget.checked })} />
    </SaveForm>
  );
}

function PasswordForm({ user: { userId }, onSaved }: { readonly user: v1.User; readonly onSaved: () => Promise<unknown> }) {
  const api = useApi();
  const [password, setPassword] = useState("");
  const [revokeAccountTokens, setRevoke] = useState(false);
  const save = useMutation({ mutationFn: async () => void (await api.service(v1.UserService).resetPassword({ userId, password, revokeAccountTokens })), onSuccess: onSaved });
  const problem = passwordProblem(password);
  return (
    <SaveForm onSubmit={() => save.mutate()} isPending={save.isPending} error={save.error} isValid={problem === undefined} label="Set the password">
      <PasswordInput label="New password" description="All sessions of the user end." autoComplete="new-password" value={password} onChange={(event) => setPassword(event.currentTarget.value)} error={password === "" ? undefined : problem} maxLength={PASSWORD_MAX} required data-autofocus />
      <Checkbox label="Revoke the account tokens of the user, too" checked={revokeAccountTokens} onChange={(event) => setRevoke(event.currentTarget.checked)} />
    </SaveForm>
  );
}
