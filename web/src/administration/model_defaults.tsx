import { Button, Group, MultiSelect, Select, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";

const FALLBACKS_MAX = 8;
const MODELS_MAX = 1_000;

interface ModelDefaultsProps {
  readonly owner: v1.ProviderOwner;
  readonly data: v1.ListProvidersResponse;
  readonly onSaved: () => Promise<unknown>;
}

/** The model of calls that name none, and the models that answer if an endpoint does not. */
export function ModelDefaults({ owner, data, onSaved }: ModelDefaultsProps) {
  const api = useApi();
  const models = useQuery({ queryKey: ["models", "all"], queryFn: async ({ signal }) => (await api.service(v1.ModelService).listModels({ pageSize: MODELS_MAX }, { signal })).models });
  const [defaultModel, setDefault] = useState(data.defaultModel);
  const [fallbacks, setFallbacks] = useState<string[]>(data.fallbacks);
  const save = useMutation({
    mutationFn: async () => void (await api.service(v1.ProviderService).setModelDefaults({ owner, defaultModel, fallbacks: { models: fallbacks }, etag: data.etag })),
    onSuccess: onSaved,
  });
  const own = data.providers.flatMap(({ models }) => models.map(({ name }) => name));
  const names = [...new Set([...(models.data ?? []).map(({ name }) => name), ...own, ...data.fallbacks, ...(data.defaultModel === "" ? [] : [data.defaultModel])])];
  return (
    <form onSubmit={(event) => { event.preventDefault(); save.mutate(); }}>
      <Text size="sm" fw={500} mt="sm">Default models</Text>
      <Group align="flex-end">
        <Select size="xs" label="Default model" placeholder="As the platform" data={names} value={defaultModel || null} onChange={(value) => setDefault(value ?? "")} clearable searchable w={240} />
        <MultiSelect size="xs" label="Fallback models, best first" placeholder={fallbacks.length === 0 ? "As the platform" : ""} data={names} value={fallbacks} onChange={setFallbacks} maxValues={FALLBACKS_MAX} searchable w={320} />
        <Button size="xs" type="submit" loading={save.isPending}>Save the defaults</Button>
      </Group>
      {save.error !== null && <ErrorNotice error={save.error} actions={{ reload: () => void onSaved() }} />}
    </form>
  );
}
