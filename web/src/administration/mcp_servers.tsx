import { Button, Checkbox, Group, Modal, PasswordInput, SegmentedControl, Switch, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatNumber } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { ConfirmButton } from "./confirm_button.js";
import { changeOf, isComplete, scopesOf, valuesOf, type McpServerValues } from "./mcp_credentials.js";
import { McpToolsForm } from "./mcp_tools_form.js";
import { SaveForm } from "./save_form.js";

const KEY = ["mcp servers"];
const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const NAME_MAX = 64;
const URL_MAX = 2_000;
const TOKEN_MAX = 4_000;
const CLIENT_ID_MAX = 256;
const SCOPES_TEXT_MAX = 4_200;

type OpenForm = { readonly form: "settings"; readonly server: v1.McpServer | undefined } | { readonly form: "tools"; readonly server: v1.McpServer };

/** The MCP servers whose tools agents may call. */
export function McpServers() {
  const api = useApi();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [shown, setShown] = useState<OpenForm>();
  const close = () => setShown(undefined);
  const onChanged = () => queries.invalidateQueries({ queryKey: KEY });
  const onSaved = async () => {
    await onChanged();
    close();
  };
  const update = useMutation({
    mutationFn: async ({ mcpServerId, etag, enabled }: Pick<v1.McpServer, "mcpServerId" | "etag" | "enabled">) =>
      void (await api.service(v1.McpServerService).updateMcpServer({ mcpServer: { mcpServerId, etag, enabled }, updateMask: { paths: ["enabled"] } })),
    onSettled: onChanged,
  });
  const remove = useMutation({ mutationFn: async ({ mcpServerId, etag }: v1.McpServer) => void (await api.service(v1.McpServerService).deleteMcpServer({ mcpServerId, etag })), onSettled: onChanged });
  const error = update.error ?? remove.error;
  const filter = nameFilter(text);
  return (
    <>
      {error !== null && <ErrorNotice error={error} />}
      <ListView<v1.McpServer>
        title="MCP servers"
        queryKey={[...KEY, { filter }]}
        load={async (pageToken, signal) => {
          const { mcpServers, nextPageToken } = await api.service(v1.McpServerService).listMcpServers({ filter, pageToken, orderBy: "name" }, { signal });
          return { items: mcpServers, nextPageToken };
        }}
        keyOf={({ mcpServerId }) => mcpServerId}
        emptyText="Agents may call the tools of an MCP server that you allow."
        onSearch={setText}
        columns={[
          { label: "Name", cell: ({ name }) => name },
          { label: "URL", cell: ({ url }) => url },
          { label: "Credential", cell: ({ hasToken, oauth }) => (oauth !== undefined ? "OAuth client" : hasToken ? "token" : "none") },
          { label: "Allowed tools", cell: ({ allowedTools }) => formatNumber(allowedTools.filter(({ disabledTime }) => disabledTime === undefined).length) },
          { label: "On", cell: (server) => <Switch size="xs" aria-label={`Agents use ${server.name}`} checked={server.enabled} onChange={(event) => update.mutate({ mcpServerId: server.mcpServerId, etag: server.etag, enabled: event.currentTarget.checked })} /> },
          {
            label: "",
            cell: (server) => (
              <Group gap={4} wrap="nowrap">
                <Button size="compact-xs" variant="subtle" aria-label={`Tools of ${server.name}`} onClick={() => setShown({ form: "tools", server })}>Tools</Button>
                <Button size="compact-xs" variant="subtle" aria-label={`Edit ${server.name}`} onClick={() => setShown({ form: "settings", server })}>Edit</Button>
                <ConfirmButton label="Delete" name={server.name} onConfirm={() => remove.mutate(server)} />
              </Group>
            ),
          },
        ]}
      >
        <Button size="xs" onClick={() => setShown({ form: "settings", server: undefined })}>New MCP server</Button>
      </ListView>
      <Modal opened={shown?.form === "settings"} onClose={close} title={shown?.server === undefined ? "New MCP server" : "MCP server"} size="lg">
        {shown?.form === "settings" && <McpServerForm server={shown.server} onSaved={onSaved} onReload={() => void onSaved()} />}
      </Modal>
      <Modal opened={shown?.form === "tools"} onClose={close} title="Tools" size="xl">
        {shown?.form === "tools" && <McpToolsForm server={shown.server} onSaved={onSaved} onReload={() => void onSaved()} />}
      </Modal>
    </>
  );
}

interface McpServerFormProps {
  /** Undefined: a new server. */
  readonly server: v1.McpServer | undefined;
  readonly onSaved: () => Promise<unknown>;
  readonly onReload: () => void;
}

/** Creates an MCP server, or changes its address and its credential. Stored tokens and secrets are never shown. */
function McpServerForm({ server, onSaved, onReload }: McpServerFormProps) {
  const api = useApi();
  const [values, setValues] = useState(() => valuesOf(server));
  const change = (changes: Partial<McpServerValues>) => setValues({ ...values, ...changes });
  const save = useMutation({
    mutationFn: async () => {
      const { fields, paths } = changeOf(values, server);
      if (server === undefined) return void (await api.service(v1.McpServerService).createMcpServer({ mcpServer: { ...fields, enabled: true } }));
      await api.service(v1.McpServerService).updateMcpServer({ mcpServer: { ...fields, mcpServerId: server.mcpServerId, etag: server.etag }, updateMask: { paths } });
    },
    onSuccess: onSaved,
  });
  const { name, url } = values;
  const isValid = NAME.test(name) && url.trim() !== "" && isComplete(values, server);
  return (
    <SaveForm onSubmit={() => save.mutate()} isPending={save.isPending} error={save.error} isValid={isValid} onReload={onReload}>
      <TextInput label="Name" value={name} onChange={(event) => change({ name: event.currentTarget.value })} error={name === "" || NAME.test(name) ? undefined : "1 to 64 letters, digits, “-” or “_”"} maxLength={NAME_MAX} required data-autofocus />
      <TextInput label="URL" description="Another URL removes the stored token or client." type="url" value={url} onChange={(event) => change({ url: event.currentTarget.value })} maxLength={URL_MAX} required />
      <SegmentedControl aria-label="Credential" data={[{ value: "token", label: "Without OAuth" }, { value: "oauth", label: "OAuth client" }]} value={values.credential} onChange={(credential) => change({ credential: credential === "oauth" ? "oauth" : "token" })} />
      {values.credential === "token" ? <TokenFields server={server} values={values} onChange={change} /> : <OAuthFields server={server} values={values} onChange={change} />}
    </SaveForm>
  );
}

interface CredentialFieldsProps {
  readonly server: v1.McpServer | undefined;
  readonly values: McpServerValues;
  readonly onChange: (changes: Partial<McpServerValues>) => void;
}

function TokenFields({ server, values: { token, isTokenDeleted }, onChange }: CredentialFieldsProps) {
  return (
    <>
      <PasswordInput label="Token" description={server?.hasToken === true ? "A token is stored. Empty: the token is kept." : "Optional. The token is stored encrypted and never shown."} autoComplete="off" value={token} onChange={(event) => onChange({ token: event.currentTarget.value })} maxLength={TOKEN_MAX} disabled={isTokenDeleted} />
      {server?.hasToken === true && <Checkbox label="Delete the stored token" checked={isTokenDeleted} onChange={(event) => onChange({ isTokenDeleted: event.currentTarget.checked })} />}
    </>
  );
}

function OAuthFields({ server, values, onChange }: CredentialFieldsProps) {
  const scopes = scopesOf(values.scopes);
  return (
    <>
      <TextInput label="Token endpoint" description="The client requests tokens there with its own credentials." type="url" value={values.tokenUrl} onChange={(event) => onChange({ tokenUrl: event.currentTarget.value })} maxLength={URL_MAX} required />
      <TextInput label="Client id" autoComplete="off" value={values.clientId} onChange={(event) => onChange({ clientId: event.currentTarget.value })} maxLength={CLIENT_ID_MAX} required />
      <PasswordInput label="Client secret" description={server?.oauth === undefined ? "The secret is stored encrypted and never shown." : "A secret is stored. Empty: the secret is kept. Another token endpoint needs its secret."} autoComplete="off" value={values.clientSecret} onChange={(event) => onChange({ clientSecret: event.currentTarget.value })} maxLength={TOKEN_MAX} />
      <TextInput label="Scopes" description="Optional, separated by spaces." value={values.scopes} onChange={(event) => onChange({ scopes: event.currentTarget.value })} error={"problem" in scopes ? scopes.problem : undefined} maxLength={SCOPES_TEXT_MAX} />
    </>
  );
}
