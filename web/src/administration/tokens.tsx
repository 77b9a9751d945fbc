import { Alert, Button, Code, CopyButton, Group, MultiSelect, Select, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { roleName, ROLES, roleOfValue } from "./roles.js";

const NAME_MAX = 200;
const DAY_SECONDS = 86_400n;
const SCOPES = Object.values(v1.Scope).filter((scope): scope is v1.Scope => typeof scope === "number" && scope !== v1.Scope.UNSPECIFIED);
const LIFETIMES = [{ value: "30", label: "30 days" }, { value: "365", label: "1 year" }, { value: "0", label: "No expiry" }];
const scopeName = (scope: v1.Scope) => (v1.Scope[scope] ?? "").toLowerCase();

/** The access tokens of the organization. The secret of a new token is shown once, and is not stored by the page. */
export function Tokens() {
  const api = useApi();
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<v1.Role>(v1.Role.MEMBER);
  const [scopes, setScopes] = useState<string[]>([]);
  const [days, setDays] = useState("30");
  const onSuccess = () => queries.invalidateQueries({ queryKey: ["tokens"] });
  const create = useMutation({
    mutationFn: () => api.tokens.createToken({ token: { name: name.trim(), role, scopes: scopes.map(Number) }, ttlSeconds: BigInt(days) * DAY_SECONDS }),
    // The secret stays in memory for as long as it is shown.
    gcTime: 0,
    onSuccess,
  });
  const revoke = useMutation({ mutationFn: async (tokenId: string) => void (await api.tokens.revokeToken({ tokenId })), onSuccess });
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
      {secret !== "" && (
        <Alert color="green" title="Copy the token now: it is shown once" withCloseButton closeButtonLabel="Close" onClose={create.reset} mb="sm">
          <Group><Code className="foreign">{secret}</Code><CopyButton value={secret}>{({ copied, copy }) => <Button size="compact-xs" onClick={copy}>{copied ? "Copied" : "Copy"}</Button>}</CopyButton></Group>
        </Alert>
      )}
      {error !== null && <ErrorNotice error={error} />}
      <ListView<v1.Token>
        title="Tokens"
        queryKey={["tokens"]}
        load={async (pageToken, signal) => {
          const { tokens, nextPageToken } = await api.tokens.listTokens({ pageToken }, { signal });
          return { items: tokens, nextPageToken };
        }}
        keyOf={({ tokenId }) => tokenId}
        emptyText="The organization has no token."
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
