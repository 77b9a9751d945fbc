import { Checkbox, PasswordInput, Select, Switch, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { useValues } from "../states/use_values.js";
import { SaveForm } from "./save_form.js";

const NAME = /^[a-z0-9._-]{1,64}$/;
const NAME_MAX = 64;
const URL_MAX = 500;
const KEY_MAX = 4_096;
const { MAX_TOKENS, MAX_COMPLETION_TOKENS, NONE } = v1.OutputLimitField;
const LIMIT_FIELDS = [
  { value: String(MAX_TOKENS), label: "max_tokens" },
  { value: String(MAX_COMPLETION_TOKENS), label: "max_completion_tokens" },
  { value: String(NONE), label: "none" },
];

/** Returns the problem of the name of a new provider. Undefined: the name is valid. An update of the same name would change it. */
export function nameProblem(name: string, names: readonly string[]): string | undefined {
  if (!NAME.test(name)) return "1 to 64 characters of a-z, 0-9, “-”, “_” and “.”";
  return names.includes(name) ? "A provider has this name." : undefined;
}

interface ProviderFormProps {
  /** Undefined: a new provider. */
  readonly provider: v1.Provider | undefined;
  readonly names: readonly string[];
  readonly owner: v1.ProviderOwner;
  readonly etag: string;
  readonly onSaved: () => Promise<unknown>;
  readonly onReload: () => void;
}

/** Creates a provider, or changes its endpoint and its key. A stored key is never shown. */
export function ProviderForm({ provider, names, owner, etag, onSaved, onReload }: ProviderFormProps) {
  const api = useApi();
  const [values, change] = useValues({
    name: provider?.name ?? "",
    baseUrl: provider?.baseUrl ?? "",
    outputLimitField: provider?.outputLimitField || MAX_TOKENS,
    streamUsage: provider?.streamUsage ?? true,
    enabled: provider?.enabled ?? true,
  });
  const [apiKey, setApiKey] = useState("");
  const [isKeyDeleted, setKeyDeleted] = useState(false);
  const save = useMutation({
    mutationFn: async () => {
      const paths = ["enabled", "base_url", "output_limit_field", "stream_usage"];
      if (apiKey !== "" || isKeyDeleted) paths.push("api_key");
      await api.service(v1.ProviderService).updateProvider({ provider: { ...values, baseUrl: values.baseUrl.trim(), apiKey: isKeyDeleted ? "" : apiKey }, updateMask: { paths }, owner, etag });
    },
    onSuccess: onSaved,
  });
  const problem = provider === undefined ? nameProblem(values.name, names) : undefined;
  return (
    <SaveForm onSubmit={() => save.mutate()} isPending={save.isPending} error={save.error} isValid={problem === undefined} onReload={onReload}>
      <TextInput label="Name" value={values.name} onChange={(event) => change({ name: event.currentTarget.value })} readOnly={provider !== undefined} error={values.name === "" ? undefined : problem} maxLength={NAME_MAX} required data-autofocus />
      <TextInput label="Base URL" description="Empty: the endpoint of the platform. Another URL deletes the stored key." type="url" value={values.baseUrl} onChange={(event) => change({ baseUrl: event.currentTarget.value })} maxLength={URL_MAX} />
      <PasswordInput label="API key" description={provider?.hasApiKey === true ? "A key is stored. Empty: the key is kept." : "The key is stored encrypted and never shown."} autoComplete="off" value={apiKey} onChange={(event) => setApiKey(event.currentTarget.value)} maxLength={KEY_MAX} disabled={isKeyDeleted} />
      {provider?.hasApiKey === true && <Checkbox label="Delete the stored key" checked={isKeyDeleted} onChange={(event) => setKeyDeleted(event.currentTarget.checked)} />}
      <Select label="Field that limits the output" data={LIMIT_FIELDS} value={String(values.outputLimitField)} onChange={(value) => change({ outputLimitField: Number(value) })} allowDeselect={false} />
      <Switch label="Streaming requests ask for the token usage" checked={values.streamUsage} onChange={(event) => change({ streamUsage: event.currentTarget.checked })} />
      <Switch label="The provider is used" checked={values.enabled} onChange={(event) => change({ enabled: event.currentTarget.checked })} />
    </SaveForm>
  );
}
