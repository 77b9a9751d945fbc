import { Button, Group, NumberInput, Select, Stack, Switch, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { ORGANIZATION_KEY, useOrganization } from "../session/organization.js";
import { EmptyState, QueryView } from "../states/states.js";
import { useValues } from "../states/use_values.js";

const NAME_MAX = 200;
const RETENTION_DAYS_MAX = 3_650;
const TAG_BATCH_MAX = 1_000;
const { UNSPECIFIED, OFF, INDEX, FAST, AGENTIC } = v1.IngestionMode;
const INGESTION_MODES = [
  { value: OFF, label: "off", description: "Documents are ingested on request only, so that searches do not find new ones." },
  { value: INDEX, label: "index", description: "Sections, passages, terms, vectors and the index, without a chat model." },
  { value: FAST, label: "fast", description: "As index, with a summary of each section by a model, which costs credit." },
  { value: AGENTIC, label: "agentic", description: "Agents decide about the steps, which costs more credit." },
] as const;

/** The name, retention and automatic runs of the organization. */
export function OrganizationSettings() {
  const organization = useOrganization();
  return (
    <QueryView query={organization} empty={(data) => (data === null ? <EmptyState title="Not found" /> : undefined)}>
      {(data) => data !== null && <SettingsForm key={data.etag} stored={data} />}
    </QueryView>
  );
}

function SettingsForm({ stored }: { readonly stored: v1.Organization }) {
  const api = useApi();
  const queries = useQueryClient();
  const [values, change] = useValues({
    name: stored.name,
    threadRetentionDays: stored.threadRetentionDays,
    tagRunsDisabled: stored.tagRunsDisabled,
    tagBatchDocuments: stored.tagBatchDocuments,
    autoCreate: stored.autoCreate,
    ingestion: stored.ingestion,
  });
  const save = useMutation({
    mutationFn: async () => {
      const updateMask = { paths: ["name", "thread_retention_days", "tag_runs_disabled", "tag_batch_documents", "auto_create", ...(values.ingestion === UNSPECIFIED ? [] : ["ingestion"])] };
      await api.service(v1.OrganizationService).updateOrganization({ organization: { ...values, name: values.name.trim(), etag: stored.etag }, updateMask });
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ORGANIZATION_KEY }),
  });
  return (
    <form onSubmit={(event) => { event.preventDefault(); save.mutate(); }}>
      <Stack gap="sm" maw={480}>
        <TextInput label="Name" value={values.name} onChange={(event) => change({ name: event.currentTarget.value })} maxLength={NAME_MAX} required />
        <NumberInput label="Days without activity after which a conversation is deleted" description="0: conversations are kept" value={values.threadRetentionDays} onChange={(value) => change({ threadRetentionDays: Number(value) || 0 })} min={0} max={RETENTION_DAYS_MAX} allowDecimal={false} allowNegative={false} clampBehavior="strict" />
        <Switch label="An agent makes a proposal for each uploaded document" checked={values.autoCreate} onChange={(event) => change({ autoCreate: event.currentTarget.checked })} />
        <Switch label="Prompts run on documents with their tags" checked={!values.tagRunsDisabled} onChange={(event) => change({ tagRunsDisabled: !event.currentTarget.checked })} />
        <NumberInput label="Documents on which a prompt runs at once when it gets a tag" value={values.tagBatchDocuments} onChange={(value) => change({ tagBatchDocuments: Number(value) || 0 })} min={0} max={TAG_BATCH_MAX} allowDecimal={false} allowNegative={false} clampBehavior="strict" />
        <Select
          label="Ingestion of new documents"
          description={INGESTION_MODES.find(({ value }) => value === values.ingestion)?.description}
          data={INGESTION_MODES.map(({ value, label }) => ({ value: String(value), label }))}
          value={values.ingestion === UNSPECIFIED ? null : String(values.ingestion)}
          onChange={(mode) => change({ ingestion: INGESTION_MODES.find(({ value }) => String(value) === mode)?.value ?? values.ingestion })}
          allowDeselect={false}
        />
        {save.error !== null && <ErrorNotice error={save.error} actions={{ reload: () => void queries.invalidateQueries({ queryKey: ORGANIZATION_KEY }) }} />}
        <Group><Button size="xs" type="submit" loading={save.isPending} disabled={values.name.trim() === ""}>Save</Button></Group>
      </Stack>
    </form>
  );
}
