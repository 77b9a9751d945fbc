import { Anchor, Button, Group, List, Select, Stack, Tabs, Text, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { lazy, Suspense, useState } from "react";
import { Link, useLocation } from "wouter";
import { indented } from "../agent/calls.js";
import { useApi } from "../api/api.js";
import { quoted } from "../documents/filters.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { JsonEditor } from "../json/json_editor.js";
import { usePermits } from "../session/session_context.js";
import { EmptyState, LoadingState, QueryView } from "../states/states.js";
import { NEW_FORMAT, schemaIn, withSchema } from "./properties.js";
import { PropertiesEditor } from "./properties_editor.js";

const DiffView = lazy(async () => ({ default: (await import("./diff_view.js")).DiffView }));

const NAME_MAX = 200;
const PROMPTS_MAX = 100;
const NEW = { schemaId: "", schemaRevid: "", name: "", responseFormatJson: NEW_FORMAT, etag: "" };
type Stored = Pick<v1.Schema, "schemaId" | "schemaRevid" | "name" | "responseFormatJson" | "etag">;

/** The view of a schema: editors for fields and JSON, revisions with their differences, prompts that use it, and a test of data. */
export function SchemaView({ schemaId }: { readonly schemaId: string }) {
  const api = useApi();
  const isNew = schemaId === "new";
  const schema = useQuery({
    queryKey: ["schemas", "one", schemaId],
    queryFn: async ({ signal }): Promise<Stored | null> => {
      // An update needs the etag, which only the list contains.
      const { schemaRevision } = await api.service(v1.SchemaService).getSchemaRevision({ schemaRevid: schemaId }, { signal });
      if (schemaRevision === undefined) return null;
      const { schemas } = await api.service(v1.SchemaService).listSchemas({ filter: `name=${quoted(schemaRevision.name)}` }, { signal });
      return schemas.find((one) => one.schemaId === schemaId) ?? null;
    },
    enabled: !isNew,
    refetchOnWindowFocus: false,
  });
  if (isNew) return <LoadedSchema schema={NEW} />;
  return (
    <QueryView query={schema} empty={(data) => (data === null ? <EmptyState title="Not found" /> : undefined)}>
      {(data) => data !== null && <LoadedSchema key={data.etag} schema={data} />}
    </QueryView>
  );
}

function LoadedSchema({ schema }: { readonly schema: Stored }) {
  const api = useApi();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS);
  const [name, setName] = useState(schema.name);
  const [format, setFormat] = useState(() => indented(schema.responseFormatJson));
  const isNew = schema.schemaId === "";
  const node = schemaIn(format);
  const check = useQuery({
    queryKey: ["schema check", format],
    queryFn: ({ signal }) => api.service(v1.SchemaService).validateSchema({ responseFormatJson: format, allowNonStrict: true }, { signal }),
    staleTime: Infinity,
    gcTime: 10_000,
  });
  const save = useMutation({
    mutationFn: async () => {
      const values = { name: name.trim(), responseFormatJson: format };
      if (isNew) return (await api.service(v1.SchemaService).createSchema({ schema: values, allowNonStrict: true })).schema;
      const request = { schema: { ...values, schemaId: schema.schemaId, etag: schema.etag }, updateMask: { paths: ["name", "response_format_json"] }, allowNonStrict: true };
      return (await api.service(v1.SchemaService).updateSchema(request)).schema;
    },
    onSuccess: async (saved) => {
      await queries.invalidateQueries({ queryKey: ["schemas"] });
      if (isNew && saved !== undefined) navigate(`/schemas/${saved.schemaId}`);
    },
  });
  const remove = useMutation({
    mutationFn: () => api.service(v1.SchemaService).deleteSchema({ schemaId: schema.schemaId, etag: schema.etag }),
    onSuccess: async () => {
      navigate("/schemas");
      await queries.invalidateQueries({ queryKey: ["schemas", "list"] });
    },
  });
  const reload = () => void queries.invalidateQueries({ queryKey: ["schemas", "one", schema.schemaId] });
  const error = save.error ?? remove.error;
  const isChanged = name !== schema.name || format !== indented(schema.responseFormatJson);
  return (
    <Stack gap="sm">
      <Group gap="sm">
        <Anchor component={Link} href="/schemas" size="sm">Schemas</Anchor>
        <Title order={1} size="h4" className="foreign">{schema.name || "New schema"}</Title>
      </Group>
      <Group align="flex-end">
        <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} maxLength={NAME_MAX} readOnly={!canWrite} flex={1} />
        {canWrite && <Button onClick={() => save.mutate()} loading={save.isPending} disabled={name.trim() === "" || (!isNew && !isChanged) || check.data?.valid === false}>Save</Button>}
        {canWrite && !isNew && <Button variant="subtle" color="red" onClick={() => remove.mutate()} loading={remove.isPending}>Delete</Button>}
      </Group>
      {error !== null && <ErrorNotice error={error} actions={{ reload }} />}
      {check.data?.violations.map(({ path, message }) => <Text key={`${path} ${message}`} size="sm" c="red" role="alert" className="foreign">{`${path}: ${message}`}</Text>)}
      <Tabs defaultValue="fields" keepMounted={false}>
        <Tabs.List mb="sm">
          <Tabs.Tab value="fields">Fields</Tabs.Tab>
          <Tabs.Tab value="json">JSON</Tabs.Tab>
          {!isNew && <Tabs.Tab value="revisions">Revisions</Tabs.Tab>}
          {!isNew && <Tabs.Tab value="prompts">Prompts</Tabs.Tab>}
          {!isNew && <Tabs.Tab value="test">Test</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="fields">
          {node === undefined ? <EmptyState title="The JSON has no schema" text="Correct it in the tab JSON." /> : <PropertiesEditor schema={node} label="Fields" onChange={(next) => canWrite && setFormat(withSchema(format, next))} />}
        </Tabs.Panel>
        <Tabs.Panel value="json">
          <JsonEditor label="Response format" value={format} onChange={setFormat} readOnly={!canWrite} minRows={12} error={check.data?.valid === false} problems={check.data?.violations} />
        </Tabs.Panel>
        <Tabs.Panel value="revisions"><Revisions schemaId={schema.schemaId} /></Tabs.Panel>
        <Tabs.Panel value="prompts"><Prompts schemaId={schema.schemaId} /></Tabs.Panel>
        <Tabs.Panel value="test"><DataTest schemaRevid={schema.schemaRevid} /></Tabs.Panel>
      </Tabs>
    </Stack>
  );
}

/** The revisions of a schema. The chosen revision is compared with the revision before it. */
function Revisions({ schemaId }: { readonly schemaId: string }) {
  const api = useApi();
  const [chosen, setChosen] = useState<string>();
  const revisions = useQuery({ queryKey: ["schemas", "revisions", schemaId], queryFn: async ({ signal }) => (await api.service(v1.SchemaService).listSchemaRevisions({ schemaId, pageSize: 100 }, { signal })).schemaRevisions });
  return (
    <QueryView query={revisions}>
      {(all) => {
        const index = Math.max(all.findIndex(({ schemaRevid }) => schemaRevid === chosen), 0);
        const [current, before] = [all[index], all[index + 1]];
        return (
          <Stack gap="xs">
            <Select size="xs" aria-label="Revision" data={all.map(({ schemaRevid, revision, createTime }) => ({ value: schemaRevid, label: `Revision ${revision} · ${formatTime(createTime)}` }))} value={current?.schemaRevid ?? null} onChange={(id) => setChosen(id ?? undefined)} allowDeselect={false} />
            <Suspense fallback={<LoadingState />}>
              <DiffView before={before === undefined ? "" : indented(before.responseFormatJson)} after={indented(current?.responseFormatJson ?? "")} />
            </Suspense>
          </Stack>
        );
      }}
    </QueryView>
  );
}

function Prompts({ schemaId }: { readonly schemaId: string }) {
  const api = useApi();
  const prompts = useQuery({ queryKey: ["prompts", { schemaId }], queryFn: async ({ signal }) => (await api.service(v1.PromptService).listPrompts({ filter: `schema:${schemaId}`, orderBy: "name", pageSize: PROMPTS_MAX }, { signal })).prompts });
  return (
    <QueryView query={prompts} empty={(all) => (all.length === 0 ? <EmptyState title="No prompt uses this schema" /> : undefined)}>
      {(all) => (
        <>
          <List>{all.map(({ promptId, name, schemaRevid }) => <List.Item key={promptId}><Anchor component={Link} href={`/prompts?prompt=${promptId}`} size="sm"><bdi>{name}</bdi></Anchor><Text span size="xs" c="dimmed">{` (revision ${schemaRevid.split(".").at(-1) ?? ""})`}</Text></List.Item>)}</List>
          <Anchor component={Link} href={`/prompts?schema=${schemaId}`} size="sm">Show them in the list of prompts</Anchor>
        </>
      )}
    </QueryView>
  );
}

function DataTest({ schemaRevid }: { readonly schemaRevid: string }) {
  const api = useApi();
  const [dataJson, setData] = useState("{}");
  const test = useMutation({ mutationFn: () => api.service(v1.SchemaService).validateData({ schemaRevid, dataJson }) });
  return (
    <Stack gap="xs">
      <JsonEditor label="Data" value={dataJson} onChange={setData} minRows={6} maxLength={96 * 1024} error={test.data?.valid === false} problems={test.data?.violations} />
      <Group><Button size="xs" onClick={() => test.mutate()} loading={test.isPending}>Test the data</Button></Group>
      {test.error !== null && <ErrorNotice error={test.error} />}
      {test.data?.valid === true && <Text size="sm" c="green" role="status">The data matches the schema.</Text>}
      {test.data?.violations.map(({ path, message }) => <Text key={`${path} ${message}`} size="sm" c="red" role="alert" className="foreign">{`${path}: ${message}`}</Text>)}
    </Stack>
  );
}
