import { Badge, Button, Group, Modal, SegmentedControl, Stack, Table, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatNumber } from "../format.js";
import { useIsPlatform } from "../session/account.js";
import { EmptyState, QueryView } from "../states/states.js";
import { ConfirmButton } from "./confirm_button.js";
import { ModelDefaults } from "./model_defaults.js";
import { ProviderForm } from "./provider_form.js";
import { ProviderModels } from "./provider_models_form.js";

const { ORGANIZATION, PLATFORM } = v1.ProviderOwner;
const OWNERS = [{ value: String(ORGANIZATION), label: "Organization" }, { value: String(PLATFORM), label: "Platform" }];
const PROVIDERS_MAX = 1_000;

/** The endpoints of models, with their keys and models. */
export function Providers() {
  const api = useApi();
  const isPlatform = useIsPlatform();
  const [owner, setOwner] = useState<v1.ProviderOwner>(ORGANIZATION);
  const providers = useQuery({
    queryKey: ["providers", owner],
    queryFn: ({ signal }) => api.service(v1.ProviderService).listProviders({ owner, pageSize: PROVIDERS_MAX }, { signal }),
    refetchOnWindowFocus: false,
  });
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Title order={2} size="h4">Providers</Title>
        {isPlatform && <SegmentedControl size="xs" aria-label="Owner" data={OWNERS} value={String(owner)} onChange={(value) => setOwner(Number(value))} />}
      </Group>
      <QueryView query={providers}>{(data) => <ProviderList key={owner} owner={owner} data={data} />}</QueryView>
    </Stack>
  );
}

type OpenForm = { readonly form: "settings" | "models"; readonly name: string };

function ProviderList({ owner, data }: { readonly owner: v1.ProviderOwner; readonly data: v1.ListProvidersResponse }) {
  const { providers, platformProviders, etag } = data;
  const queries = useQueryClient();
  const [shown, setShown] = useState<OpenForm>();
  const close = () => setShown(undefined);
  const onChanged = () => Promise.all([queries.invalidateQueries({ queryKey: ["providers"] }), queries.invalidateQueries({ queryKey: ["models"] })]);
  const provider = providers.find(({ name }) => name === shown?.name);
  const onSaved = async () => {
    await onChanged();
    close();
  };
  const reload = () => void onChanged();
  return (
    <>
      <Group justify="space-between">
        <Text size="xs" c="dimmed" className="foreign">{platformProviders.length === 0 ? "" : `Providers of the platform: ${platformProviders.join(", ")}. A provider with the same name overrides it.`}</Text>
        <Button size="xs" onClick={() => setShown({ form: "settings", name: "" })}>New provider</Button>
      </Group>
      {providers.length === 0 ? <EmptyState title="No providers" text="Agents and prompts use the models of the platform." /> : (
        <Table.ScrollContainer minWidth={640}>
          <Table aria-label="Providers" verticalSpacing="xs">
            <Table.Thead><Table.Tr>{["Name", "Endpoint", "Key", "Models", "State", "Actions"].map((label) => <Table.Th key={label}>{label}</Table.Th>)}</Table.Tr></Table.Thead>
            <Table.Tbody>
              {providers.map((provider) => <ProviderRow key={provider.name} provider={provider} owner={owner} etag={etag} onChanged={onChanged} onShow={(form) => setShown({ form, name: provider.name })} />)}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      <ModelDefaults key={etag} owner={owner} data={data} onSaved={onChanged} />
      <Modal opened={shown?.form === "settings"} onClose={close} title={shown?.name === "" ? "New provider" : "Provider"} size="lg">
        {shown?.form === "settings" && <ProviderForm provider={provider} names={providers.map(({ name }) => name)} owner={owner} etag={etag} onSaved={onSaved} onReload={reload} />}
      </Modal>
      <Modal opened={shown?.form === "models"} onClose={close} title={`Models of ${shown?.name ?? ""}`} size="xl">
        {shown?.form === "models" && provider !== undefined && <ProviderModels provider={provider} owner={owner} etag={etag} onDiscovered={onChanged} onSaved={onSaved} onReload={reload} />}
      </Modal>
    </>
  );
}

interface ProviderRowProps {
  readonly provider: v1.Provider;
  readonly owner: v1.ProviderOwner;
  readonly etag: string;
  readonly onChanged: () => Promise<unknown>;
  readonly onShow: (form: OpenForm["form"]) => void;
}

function ProviderRow({ provider: { name, baseUrl, hasApiKey, models, enabled }, owner, etag, onChanged, onShow }: ProviderRowProps) {
  const api = useApi();
  const test = useMutation({ mutationFn: () => api.service(v1.ProviderService).testProvider({ name }) });
  const remove = useMutation({ mutationFn: async () => void (await api.service(v1.ProviderService).deleteProvider({ name, owner, etag })), onSuccess: onChanged });
  const error = test.error ?? remove.error;
  return (
    <Table.Tr className="foreign">
      <Table.Td>{name}</Table.Td>
      <Table.Td>{baseUrl || "of the platform"}</Table.Td>
      <Table.Td>{hasApiKey ? "stored" : "none"}</Table.Td>
      <Table.Td>{models.length === 0 && baseUrl === "" ? "of the platform" : formatNumber(models.length)}</Table.Td>
      <Table.Td><Badge size="sm" variant="light" color={enabled ? "green" : "gray"}>{enabled ? "on" : "off"}</Badge></Table.Td>
      <Table.Td>
        <Group gap={4} wrap="nowrap">
          <Button size="compact-xs" variant="subtle" aria-label={`Edit ${name}`} onClick={() => onShow("settings")}>Edit</Button>
          <Button size="compact-xs" variant="subtle" aria-label={`Models of ${name}`} onClick={() => onShow("models")}>Models</Button>
          <Button size="compact-xs" variant="subtle" aria-label={`Test ${name}`} loading={test.isPending} onClick={() => test.mutate()}>Test</Button>
          <ConfirmButton label="Delete" name={name} loading={remove.isPending} onConfirm={() => remove.mutate()} />
        </Group>
        {test.data !== undefined && (
          <Text size="xs" c={test.data.answered ? "green" : "red"} role="status" maw={360}>
            {test.data.answered ? `${test.data.model} answered in ${formatNumber(test.data.milliseconds)} ms.` : `${test.data.model} did not answer: ${test.data.problem}`}
          </Text>
        )}
        {error !== null && <ErrorNotice error={error} actions={{ reload: () => void onChanged() }} />}
      </Table.Td>
    </Table.Tr>
  );
}
