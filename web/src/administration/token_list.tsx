import { Button, Group, MultiSelect, Select, TextInput } from "@mantine/core";
import { useMutation, useQueryClient, type QueryKey } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { SecretNotice } from "./secret_notice.js";
import { roleName, ROLES, roleOfValue } from "./roles.js";

const NAME_MAX = 200;
const DAY_SECONDS = 86_400n;
const SCOPES = Object.values(v1.Scope).filter((scope): scope is v1.Scope => typeof scope === "number" && scope !== v1.Scope.UNSPECIFIED);
const LIFETIMES = [{ value: "30", label: "30 days" }, { value: "365", label: "1 year" }, { value: "0", label: "No expiry" }];
const scopeName = (scope: v1.Scope) => (v1.Scope[scope] ?? "").toLowerCase();

interface NewToken {
  readonly token: { readonly name: string; readonly role: v1.Role; readonly scopes: v1.Scope[] };
  readonly ttlSeconds: bigint;
}

interface TokenListProps {
  readonly title: string;
  readonly queryKey: QueryKey;
  readonly emptyText: string;
  readonly create: (request: NewToken) => Promise<{ readonly secret: string }>;
  readonly load: (pageToken: string, signal: AbortSignal) => Promise<{ readonly tokens: readonly v1.Token[]; readonly nextPageToken: string }>;
  readonly revoke: (tokenId: string) => Promise<unknown>;
}

/** Tokens that are created and revoked. The secret of a new token is shown once, and is not stored by the page. */
export function TokenList({ title, queryKey, emptyText, create: createToken, load, revoke: revokeToken }: TokenListProps) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<v1.Role>(v1.Role.MEMBER);
  const [scopes, setScopes] = useState<string[]>([]);
  const [days, setDays] = useState("30");
  const onSuccess = () => queries.invalidateQueries({ queryKey });
  const create = useMutation({
    mutationFn: () => createToken({ token: { name: name.trim(), role, scopes: scopes.map(Number) }, ttlSeconds: BigInt(days) * DAY_SECONDS }),
    // The secret stays in memory for as long as it is shown.
    gcTime: 0,
    onSuccess,
  });
  const revoke = useMutation({ mutationFn: revokeToken, onSuccess });
  const error = create.error ?? revoke.error;
  const secret = create.data?.secret ?? "";
  return (
    <>
      <form onSubmit={(event) => { event.preventDefault(); create.mutate(); }}>
        <Group align="flex-end" mb="sm">
          <TextInput size="xs" label="Purpose" value={name} onChange={(event) => setName(event.currentTarget.value)} maxLength={NAME_MAX} required />
          <Select size="xs" label="Role" data={ROLES} value={String(role)} onChange={(value) => setRole(roleOfValue(value))} allowDeselect={false} />
          <MultiSelect size="xs" label="Scopes" placeholder={scopes.length === 0 ? "All" : ""} data={SCOPES.map((scope) => ({ value: String(scope), label: scopeName(scope) }))} value={scopes} onChange={setScopes} />
          <Select size="xs" label="Lifetime" data={LIFETIMES} value={days} onChange={(value) => setDays(value ?? "30")} allowDeselect={false} />
          <Button size="xs" type="submit" loading={create.isPending} disabled={name.trim() === ""}>Create token</Button>
        </Group>
      </form>
      {secret !== "" && <SecretNotice secret={secret} onClose={create.reset} />}
      {error !== null && <ErrorNotice error={error} />}
      <ListView<v1.Token>
        title={title}
        queryKey={queryKey}
        load={async (pageToken, signal) => {
          const { tokens, nextPageToken } = await load(pageToken, signal);
          return { items: tokens, nextPageToken };
        }}
        keyOf={({ tokenId }) => tokenId}
        emptyText={emptyText}
        columns={[
          { label: "Purpose", cell: ({ name }) => name },
          { label: "Role", cell: ({ role }) => roleName(role) },
          { label: "Scopes", cell: ({ scopes }) => (scopes.length === 0 ? "all" : scopes.map(scopeName).join(", ")) },
          { label: "Expires", cell: ({ expireTime }) => formatTime(expireTime) || "never" },
          { label: "Last use", cell: ({ lastUseTime }) => formatTime(lastUseTime) || "never" },
          { label: "", cell: ({ tokenId, name }) => <Button size="compact-xs" variant="subtle" color="red" aria-label={`Revoke ${name}`} onClick={() => revoke.mutate(tokenId)}>Revoke</Button> },
        ]}
      />
    </>
  );
}
