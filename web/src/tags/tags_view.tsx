import { ActionIcon, Button, ColorInput, Group, Modal, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";
import { TagBadge } from "../documents/tag_badge.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { usePermits } from "../session/session_context.js";
import { useValues } from "../states/use_values.js";

const NAME_MAX = 200;
const DESCRIPTION_MAX = 2_000;
type Edited = Pick<v1.Tag, "tagId" | "name" | "color" | "description" | "etag">;
const NEW: Edited = { tagId: "", name: "", color: "", description: "", etag: "" };

/** The tags of documents and prompts. */
export function TagsView() {
  const api = useApi();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS);
  const [text, setText] = useState("");
  const [edited, setEdited] = useState<Edited>();
  const filter = nameFilter(text);
  return (
    <>
      <ListView<v1.Tag>
        title="Tags"
        queryKey={["tags", "list", { filter }]}
        load={async (pageToken, signal) => {
          const { tags, nextPageToken } = await api.service(v1.TagService).listTags({ filter, pageToken, orderBy: "name" }, { signal });
          return { items: tags, nextPageToken };
        }}
        keyOf={({ tagId }) => tagId}
        emptyText="Tags group documents, and choose the prompts that run on them."
        onSearch={setText}
        columns={[
          { label: "Name", cell: (tag) => <TagBadge tag={tag} /> },
          { label: "Description", cell: ({ description }) => <Text size="sm" lineClamp={2}>{description}</Text> },
          { label: "Changed", cell: ({ updateTime }) => formatTime(updateTime) },
          { label: "", cell: (tag) => canWrite && <ActionIcon variant="subtle" color="gray" aria-label={`Edit ${tag.name}`} onClick={() => setEdited(tag)}>✎</ActionIcon> },
        ]}
      >
        {canWrite && <Button size="xs" onClick={() => setEdited(NEW)}>New tag</Button>}
      </ListView>
      <Modal opened={edited !== undefined} onClose={() => setEdited(undefined)} title={edited?.tagId === "" ? "New tag" : "Edit tag"}>
        {edited !== undefined && <TagForm tag={edited} onDone={() => setEdited(undefined)} />}
      </Modal>
    </>
  );
}

function TagForm({ tag, onDone }: { readonly tag: Edited; readonly onDone: () => void }) {
  const api = useApi();
  const queries = useQueryClient();
  const [{ name, color, description }, change] = useValues(tag);
  const onSuccess = async () => {
    await queries.invalidateQueries({ queryKey: ["tags"] });
    onDone();
  };
  const save = useMutation({
    mutationFn: async () => {
      const values = { name: name.trim(), color, description };
      if (tag.tagId === "") return api.service(v1.TagService).createTag({ tag: values });
      return api.service(v1.TagService).updateTag({ tag: { ...values, tagId: tag.tagId, etag: tag.etag }, updateMask: { paths: ["name", "color", "description"] } });
    },
    onSuccess,
  });
  const remove = useMutation({ mutationFn: () => api.service(v1.TagService).deleteTag({ tagId: tag.tagId, etag: tag.etag }), onSuccess });
  const error = save.error ?? remove.error;
  return (
    <form onSubmit={(event) => { event.preventDefault(); save.mutate(); }}>
      <Stack>
        <TextInput label="Name" value={name} onChange={(event) => change({ name: event.currentTarget.value })} maxLength={NAME_MAX} required data-autofocus />
        <ColorInput label="Color" value={color} onChange={(color) => change({ color })} format="hex" />
        <Textarea label="Description" value={description} onChange={(event) => change({ description: event.currentTarget.value })} maxLength={DESCRIPTION_MAX} autosize />
        {error !== null && <ErrorNotice error={error} />}
        <Group justify="space-between">
          {tag.tagId !== "" ? <Button variant="subtle" color="red" loading={remove.isPending} onClick={() => remove.mutate()}>Delete</Button> : <span />}
          <Button type="submit" loading={save.isPending} disabled={name.trim() === ""}>Save</Button>
        </Group>
      </Stack>
    </form>
  );
}
