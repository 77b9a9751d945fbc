import { ActionIcon, Button, Card, Checkbox, Group, Select, Stack, TagsInput, Text, Textarea, TextInput } from "@mantine/core";
import { v1, randomId } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { TYPES } from "./cells.js";
import { COLUMNS_MAX, columnsOf, DESCRIPTION_MAX, draftOf, moved, NAME_MAX, newColumn, problemOf, UNIT_MAX, VALUE_MAX, VALUES_MAX, type ColumnDraft } from "./columns.js";
import { useReload, useStackChange } from "./queries.js";

const LABELS = TYPES.map(({ type, label }) => ({ value: String(type), label }));

/** Edits all columns of a table. */
export function ColumnsForm({ stack, onDone }: { readonly stack: v1.Stack; readonly onDone: () => void }) {
  const api = useApi();
  const { stackId, etag } = stack;
  const reload = useReload(stackId);
  const [drafts, setDrafts] = useState<readonly ColumnDraft[]>(() => (stack.columns.length === 0 ? [newColumn(randomId())] : stack.columns.map(draftOf)));
  const problem = problemOf(drafts);
  const save = useStackChange(stackId, () => api.service(v1.StackService).defineStackColumns({ stackId, columns: columnsOf(drafts), etag }));
  const change = (key: string, changes: Partial<ColumnDraft>) => setDrafts((all) => all.map((draft) => (draft.key === key ? { ...draft, ...changes } : draft)));
  return (
    <form onSubmit={(event) => { event.preventDefault(); save.mutate(undefined, { onSuccess: onDone }); }}>
      <Stack gap="sm">
        <Text size="sm" c="dimmed">After a change of the type, the description, the unit or the values of a column, its cells are filled again. A removed column loses its cells.</Text>
        {drafts.map((draft, index) => (
          <Card key={draft.key} withBorder padding="xs" component="section" aria-label={`Column ${index + 1}`}>
            <Group gap="xs" align="flex-end">
              <TextInput size="xs" label={`Name of column ${index + 1}`} value={draft.name} maxLength={NAME_MAX} onChange={(event) => change(draft.key, { name: event.currentTarget.value })} flex="1 1 160px" dir="auto" />
              <Select size="xs" label={`Type of column ${index + 1}`} data={LABELS} value={String(draft.type)} allowDeselect={false} onChange={(type) => change(draft.key, { type: TYPES.find((one) => String(one.type) === type)?.type ?? draft.type })} w={150} />
              <TextInput size="xs" label={`Unit of column ${index + 1}`} value={draft.unit} maxLength={UNIT_MAX} onChange={(event) => change(draft.key, { unit: event.currentTarget.value })} w={110} dir="auto" />
              <Checkbox size="xs" label={`Column ${index + 1} is required`} checked={draft.required} onChange={(event) => change(draft.key, { required: event.currentTarget.checked })} pb={6} />
            </Group>
            {draft.type === v1.StackColumnType.ENUM && <TagsInput size="xs" label={`Values of column ${index + 1}`} placeholder="Enter adds a value" value={[...draft.enumValues]} maxTags={VALUES_MAX} onChange={(values) => change(draft.key, { enumValues: values.map((value) => value.slice(0, VALUE_MAX)) })} />}
            <Group gap="xs" align="flex-end" wrap="nowrap">
              <Textarea size="xs" label={`Description of column ${index + 1}`} value={draft.description} maxLength={DESCRIPTION_MAX} autosize minRows={1} onChange={(event) => change(draft.key, { description: event.currentTarget.value })} flex={1} dir="auto" />
              <ActionIcon variant="subtle" color="gray" aria-label={`Move column ${index + 1} up`} disabled={index === 0} onClick={() => setDrafts((all) => moved(all, index, -1))}>↑</ActionIcon>
              <ActionIcon variant="subtle" color="gray" aria-label={`Move column ${index + 1} down`} disabled={index === drafts.length - 1} onClick={() => setDrafts((all) => moved(all, index, 1))}>↓</ActionIcon>
              <ActionIcon variant="subtle" color="red" aria-label={`Remove column ${index + 1}`} onClick={() => setDrafts((all) => all.filter(({ key }) => key !== draft.key))}>✕</ActionIcon>
            </Group>
          </Card>
        ))}
        {problem !== "" && <Text size="xs" c="dimmed" role="status">{problem}</Text>}
        {save.error !== null && <ErrorNotice error={save.error} actions={{ reload: () => { reload(); onDone(); } }} />}
        <Group justify="space-between">
          <Button size="xs" variant="default" disabled={drafts.length >= COLUMNS_MAX} onClick={() => setDrafts((all) => [...all, newColumn(randomId())])}>Add a column</Button>
          <Button size="xs" type="submit" loading={save.isPending} disabled={problem !== ""}>Save the columns</Button>
        </Group>
      </Stack>
    </form>
  );
}
