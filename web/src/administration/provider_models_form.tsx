import { Button, Checkbox, Group, MultiSelect, NumberInput, Stack, Table, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { EmptyState } from "../states/states.js";
import { dollarsOf, microdollarsOf, PRICE_MAX, withChanges, withModels } from "./provider_models.js";

const NAME_MAX = 200;
const TOKENS_MAX = 100_000_000;
const FLAGS = [
  { name: "enabled", label: "On" },
  { name: "chat", label: "Chats" },
  { name: "prompts", label: "Prompts" },
  { name: "thinking", label: "Thinking" },
  { name: "noTools", label: "No tools" },
  { name: "noJsonSchema", label: "No JSON Schema" },
  { name: "evidence", label: "Quotes" },
] as const;
const SIZES = [{ name: "contextTokens", label: "Context" }, { name: "maxOutputTokens", label: "Output" }] as const;
const PRICES = [
  { name: "inputPriceMicrodollars", label: "Input $" },
  { name: "cachedInputPriceMicrodollars", label: "Cached $" },
  { name: "outputPriceMicrodollars", label: "Output $" },
] as const;

interface ProviderModelsProps {
  readonly provider: v1.Provider;
  readonly owner: v1.ProviderOwner;
  readonly etag: string;
  readonly onDiscovered: () => Promise<unknown>;
  readonly onSaved: () => Promise<unknown>;
  readonly onReload: () => void;
}

/** The models of a provider that may be used, of those that its endpoint lists or of any name. */
export function ProviderModels({ provider, owner, etag, onDiscovered, onSaved, onReload }: ProviderModelsProps) {
  const api = useApi();
  const { name, availableModels, discoverTime } = provider;
  const [models, setModels] = useState<readonly v1.ProviderModel[]>(provider.models);
  const [chosen, setChosen] = useState<string[]>([]);
  const [other, setOther] = useState("");
  const discover = useMutation({ mutationFn: async () => void (await api.service(v1.ProviderService).discoverModels({ name, owner })), onSuccess: onDiscovered });
  const save = useMutation({
    mutationFn: async () => void (await api.service(v1.ProviderService).updateProvider({ provider: { name, models: [...models] }, updateMask: { paths: ["models"] }, owner, etag })),
    onSuccess: onSaved,
  });
  const add = () => {
    setModels(withModels(models, [...chosen, other.trim()]));
    setChosen([]);
    setOther("");
  };
  const known = new Set(models.flatMap(({ name, upstream }) => [name, upstream]));
  const change = (name: string, changes: Partial<v1.ProviderModel>) => setModels(withChanges(models, name, changes));
  const error = save.error ?? discover.error;
  return (
    <Stack gap="sm">
      <Group>
        <Button size="xs" variant="default" loading={discover.isPending} onClick={() => discover.mutate()}>Discover models</Button>
        <Text size="xs" c="dimmed" role="status">{discoverTime === undefined ? "The models of the endpoint were not read yet." : `The endpoint lists ${availableModels.length} models, ${formatTime(discoverTime)}.`}</Text>
      </Group>
      <Group align="flex-end">
        <MultiSelect size="xs" label="Models of the endpoint" data={[...new Set(availableModels)].filter((model) => !known.has(model))} value={chosen} onChange={setChosen} searchable limit={100} w={280} />
        <TextInput size="xs" label="Another model" value={other} onChange={(event) => setOther(event.currentTarget.value)} maxLength={NAME_MAX} />
        <Button size="xs" variant="default" disabled={chosen.length === 0 && other.trim() === ""} onClick={add}>Add</Button>
      </Group>
      {models.length === 0 ? <EmptyState title="No models" text="Add the models that chats and prompts may use." /> : (
        <Table.ScrollContainer minWidth={900}>
          <Table aria-label="Models" verticalSpacing={4}>
            <Table.Thead><Table.Tr>{["Model", ...[...FLAGS, ...SIZES, ...PRICES].map(({ label }) => label), "Remove"].map((label, index) => <Table.Th key={index}>{label}</Table.Th>)}</Table.Tr></Table.Thead>
            <Table.Tbody>
              {models.map((model) => (
                <Table.Tr key={model.name}>
                  <Table.Td className="foreign">{model.name}</Table.Td>
                  {FLAGS.map(({ name, label }) => <Table.Td key={name}><Checkbox size="xs" aria-label={`${label}: ${model.name}`} checked={model[name]} onChange={(event) => change(model.name, { [name]: event.currentTarget.checked })} /></Table.Td>)}
                  {SIZES.map(({ name, label }) => <Table.Td key={name}><NumberInput size="xs" w={100} aria-label={`${label} tokens: ${model.name}`} placeholder="known" value={model[name] || ""} onChange={(value) => change(model.name, { [name]: Number(value) || 0 })} min={0} max={TOKENS_MAX} allowDecimal={false} allowNegative={false} clampBehavior="strict" hideControls /></Table.Td>)}
                  {PRICES.map(({ name, label }) => <Table.Td key={name}><NumberInput size="xs" w={80} aria-label={`${label} for a million tokens: ${model.name}`} placeholder="unknown" value={dollarsOf(model[name])} onChange={(value) => change(model.name, priceChange(name, value))} min={0} max={PRICE_MAX} decimalScale={6} allowNegative={false} clampBehavior="strict" hideControls /></Table.Td>)}
                  <Table.Td><Button size="compact-xs" variant="subtle" color="red" aria-label={`Remove ${model.name}`} onClick={() => setModels(models.filter((one) => one !== model))}>Remove</Button></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {error !== null && <ErrorNotice error={error} actions={{ reload: onReload }} />}
      <Group justify="flex-end"><Button loading={save.isPending} onClick={() => save.mutate()}>Save the models</Button></Group>
    </Stack>
  );
}

function priceChange(name: (typeof PRICES)[number]["name"], value: number | string): Partial<v1.ProviderModel> {
  // An unknown price is absent on the wire.
  return { [name]: microdollarsOf(value) };
}
