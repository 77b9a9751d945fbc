import { ActionIcon, Badge, Button, Checkbox, Group, Modal, MultiSelect, Select, Stack, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useSearchParams } from "wouter";
import { useSchemas } from "../agent/mentions.js";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";
import { useTags } from "../documents/queries.js";
import { TagBadge } from "../documents/tag_badge.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { SearchSelect, type Option } from "../lists/search_select.js";
import { usePermits } from "../session/session_context.js";
import { EmptyState, QueryView } from "../states/states.js";
import { useValues } from "../states/use_values.js";

const NAME_MAX = 200;
const CONTENT_MAX = 64 * 1024;
type Edited = Pick<v1.Prompt, "promptId" | "name" | "content" | "schemaRevid" | "model" | "tagIds" | "agent" | "etag">;
const NEW: Edited = { promptId: "", name: "", content: "", schemaRevid: "", model: "", tagIds: [], agent: false, etag: "" };

const ID = /^[\w-]{1,100}$/;

/** Returns the filter of `ListPrompts` for a part of the name and a schema. An invalid id in the address of the page is ignored. */
export function promptFilter(text: string, schemaId: string): string {
  return [nameFilter(text), ID.test(schemaId) ? `schema:${schemaId}` : ""].filter((condition) => condition !== "").join(" ");
}

function useFoundSchemas(text: string): readonly Option[] {
  return (useSchemas(text).data ?? []).map(({ schemaId, name }) => ({ value: schemaId, label: name }));
}

function useFoundRevisions(text: string): readonly Option[] {
  return (useSchemas(text).data ?? []).map(({ schemaRevid, name, revision }) => ({ value: schemaRevid, label: `${name} (revision ${revision})` }));
}

/** The prompts of the organization. The address of the page contains the schema of the filter and the displayed prompt. */
export function PromptsView() {
  const api = useApi();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS);
  const tags = useTags();
  const [parameters, setParameters] = useSearchParams();
  const schemaId = parameters.get("schema") ?? "";
  const promptId = parameters.get("prompt") ?? "";
  const [text, setText] = useState("");
  const set = (name: "schema" | "prompt", value: string) =>
    setParameters((before) => {
      const after = new URLSearchParams(before);
      if (value === "") after.delete(name);
      else after.set(name, value);
      return after;
    });
  const filter = promptFilter(text, schemaId);
  return (
    <>
      <ListView<v1.Prompt>
        title="Prompts"
        queryKey={["prompts", "list", { filter }]}
        load={async (pageToken, signal) => {
          const { prompts, nextPageToken } = await api.service(v1.PromptService).listPrompts({ filter, pageToken, orderBy: "name" }, { signal });
          return { items: prompts, nextPageToken };
        }}
        keyOf={({ promptId }) => promptId}
        emptyText="A prompt states what an extraction finds in a document."
        onSearch={setText}
        columns={[
          { label: "Name", cell: ({ name, pendingProposalId }) => <><bdi>{name}</bdi>{pendingProposalId !== "" && <Badge size="xs" ml={6}>proposed</Badge>}</> },
          { label: "Tags", cell: ({ tagIds }) => <Group gap={4}>{(tags.data ?? []).filter(({ tagId }) => tagIds.includes(tagId)).map((tag) => <TagBadge key={tag.tagId} tag={tag} />)}</Group> },
          { label: "Model", cell: ({ model }) => model || "default" },
          { label: "Revision", cell: ({ revision }) => revision },
          { label: "Changed", cell: ({ revisionCreateTime }) => formatTime(revisionCreateTime) },
          { label: "", cell: ({ promptId, name }) => <ActionIcon variant="subtle" color="gray" aria-label={`${canWrite ? "Edit" : "Show"} ${name}`} onClick={() => set("prompt", promptId)}>{canWrite ? "✎" : "…"}</ActionIcon> },
        ]}
      >
        <SearchSelect size="xs" aria-label="Schema" placeholder="Any schema" useFound={useFoundSchemas} value={schemaId} firstLabel={schemaId} onChange={(id) => set("schema", id)} clearable w={200} />
        {canWrite && <Button size="xs" onClick={() => set("prompt", "new")}>New prompt</Button>}
      </ListView>
      <Modal opened={promptId !== ""} onClose={() => set("prompt", "")} title={promptId === "new" ? "New prompt" : canWrite ? "Edit prompt" : "Prompt"} size="lg">
        {promptId === "new" && <PromptForm prompt={NEW} tags={tags.data ?? []} onDone={() => set("prompt", "")} />}
        {promptId !== "" && promptId !== "new" && <StoredPrompt promptId={promptId} tags={tags.data ?? []} onDone={() => set("prompt", "")} />}
      </Modal>
    </>
  );
}

interface StoredPromptProps extends Omit<PromptFormProps, "prompt"> {
  readonly promptId: string;
}

function StoredPrompt({ promptId, ...props }: StoredPromptProps) {
  const api = useApi();
  const grid = { filters: [{ field: "prompt_id", operator: v1.GridOperator.IS_ANY_OF, values: [promptId] }] };
  const prompt = useQuery({
    queryKey: ["prompts", "one", promptId],
    queryFn: async ({ signal }) => (await api.service(v1.PromptService).listPrompts({ grid }, { signal })).prompts.find((one) => one.promptId === promptId) ?? null,
    refetchOnWindowFocus: false,
  });
  return (
    <QueryView query={prompt} empty={(data) => (data === null ? <EmptyState title="Not found" text="The prompt was deleted." /> : undefined)}>
      {(data) => data !== null && <PromptForm key={data.etag} prompt={data} {...props} />}
    </QueryView>
  );
}

interface PromptFormProps {
  readonly prompt: Edited;
  readonly tags: readonly v1.Tag[];
  readonly onDone: () => void;
}

function PromptForm({ prompt, tags, onDone }: PromptFormProps) {
  const api = useApi();
  const queries = useQueryClient();
  const readOnly = !usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS);
  const models = useQuery({ queryKey: ["models", "prompts"], queryFn: async ({ signal }) => (await api.service(v1.ModelService).listModels({ use: v1.ModelUse.PROMPTS, pageSize: 200 }, { signal })).models });
  const [values, change] = useValues(prompt);
  const onSuccess = async () => {
    onDone();
    await queries.invalidateQueries({ queryKey: ["prompts"] });
  };
  const reload = () => void queries.invalidateQueries({ queryKey: ["prompts"] });
  const save = useMutation({
    mutationFn: async () => {
      const { name, content, schemaRevid, model, tagIds, agent } = values;
      const stored = { name: name.trim(), content, schemaRevid, model, tagIds: [...tagIds], agent };
      if (prompt.promptId === "") return void (await api.service(v1.PromptService).createPrompt({ prompt: stored }));
      const updateMask = { paths: ["name", "content", "schema_revid", "model", "tag_ids"] };
      await api.service(v1.PromptService).updatePrompt({ prompt: { ...stored, promptId: prompt.promptId, etag: prompt.etag }, updateMask });
    },
    onSuccess,
  });
  const remove = useMutation({ mutationFn: async () => void (await api.service(v1.PromptService).deletePrompt({ promptId: prompt.promptId, etag: prompt.etag })), onSuccess });
  const error = save.error ?? remove.error;
  // The search finds only the newest revision of each schema, and the prompt may use an older one.
  const firstLabel = `revision ${prompt.schemaRevid.split(".").at(-1) ?? ""}`;
  return (
    <form onSubmit={(event) => { event.preventDefault(); save.mutate(); }}>
      <Stack>
        <TextInput label="Name" value={values.name} onChange={(event) => change({ name: event.currentTarget.value })} readOnly={readOnly} maxLength={NAME_MAX} required data-autofocus />
        <Textarea label="Instructions" value={values.content} onChange={(event) => change({ content: event.currentTarget.value })} readOnly={readOnly} maxLength={CONTENT_MAX} required autosize minRows={5} maxRows={18} dir="auto" />
        <SearchSelect label="Schema" placeholder="No schema" useFound={useFoundRevisions} value={values.schemaRevid} firstLabel={firstLabel} onChange={(schemaRevid) => change({ schemaRevid })} readOnly={readOnly} clearable={!readOnly} />
        <Select label="Model" placeholder="Default model" data={(models.data ?? []).map(({ name }) => name)} value={values.model || null} onChange={(model) => change({ model: model ?? "" })} readOnly={readOnly} clearable={!readOnly} searchable />
        <MultiSelect label="Tags" description="The prompt runs on documents with one of its tags." data={tags.map(({ tagId, name }) => ({ value: tagId, label: name }))} value={[...values.tagIds]} onChange={(tagIds) => change({ tagIds })} readOnly={readOnly} searchable />
        {prompt.promptId === "" && <Checkbox label="The extraction agent runs the prompt" checked={values.agent} onChange={(event) => change({ agent: event.currentTarget.checked })} />}
        {error !== null && <ErrorNotice error={error} actions={{ reload }} />}
        {!readOnly && <Group justify="space-between">
          {prompt.promptId !== "" ? <Button variant="subtle" color="red" loading={remove.isPending} onClick={() => remove.mutate()}>Delete</Button> : <span />}
          <Button type="submit" loading={save.isPending} disabled={values.name.trim() === "" || values.content.trim() === ""}>Save</Button>
        </Group>}
      </Stack>
    </form>
  );
}
