import { ActionIcon, Anchor, Button, Group, Modal, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { Link } from "wouter";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { usePermits } from "../session/session_context.js";
import { EmptyState, MoreButton, QueryView } from "../states/states.js";
import { COLLECTIONS_KEY } from "./queries.js";
import { draftOf, metadataOf, problemOf } from "./rule.js";
import { RuleFields, RuleText } from "./rule_fields.js";

const NAME_MAX = 200;
const DESCRIPTION_MAX = 2_000;
type Edited = Pick<v1.Collection, "collectionId" | "name" | "description" | "tagIds" | "metadata" | "etag">;
const NEW: Edited = { collectionId: "", name: "", description: "", tagIds: [], metadata: {}, etag: "" };

/** The collections of documents, whose members follow from their rules. */
export function CollectionsView() {
  const api = useApi();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS);
  const mayRead = usePermits(v1.Role.VIEWER, v1.Scope.DOCUMENTS);
  const mayAsk = usePermits(v1.Role.MEMBER, v1.Scope.CONVERSATIONS);
  const [text, setText] = useState("");
  const [edited, setEdited] = useState<Edited>();
  const [opened, setOpened] = useState<Pick<v1.Collection, "collectionId" | "name">>();
  const filter = nameFilter(text);
  return (
    <>
      <ListView<v1.Collection>
        title="Collections"
        queryKey={[...COLLECTIONS_KEY, "list", { filter }]}
        load={async (pageToken, signal) => {
          const { collections, nextPageToken } = await api.service(v1.CollectionService).listCollections({ filter, pageToken, orderBy: "name" }, { signal });
          return { items: collections, nextPageToken };
        }}
        keyOf={({ collectionId }) => collectionId}
        emptyText="A collection contains all documents with some tags or metadata, also later ones. Searches and conversations can be about a collection."
        onSearch={setText}
        columns={[
          { label: "Name", cell: (collection) => <><Anchor component="button" size="sm" aria-label={`Documents of ${collection.name}`} onClick={() => setOpened(collection)}><bdi>{collection.name}</bdi></Anchor><Text size="xs" c="dimmed" lineClamp={2}>{collection.description}</Text></> },
          { label: "Rule", cell: ({ tagIds, metadata }) => <RuleText tagIds={tagIds} metadata={metadata} /> },
          { label: "Changed", cell: ({ updateTime }) => formatTime(updateTime) },
          {
            label: "",
            cell: (collection) => (
              <Group gap="xs" wrap="nowrap">
                {mayRead && <Anchor component={Link} size="sm" href={`/search?collection=${collection.collectionId}`} aria-label={`Search in ${collection.name}`}>Search</Anchor>}
                {mayAsk && <Anchor component={Link} size="sm" href={`/assistant?about=collection&collection=${collection.collectionId}`} aria-label={`Ask about ${collection.name}`}>Ask</Anchor>}
                {canWrite && <ActionIcon variant="subtle" color="gray" aria-label={`Edit ${collection.name}`} onClick={() => setEdited(collection)}>✎</ActionIcon>}
              </Group>
            ),
          },
        ]}
      >
        {canWrite && <Button size="xs" onClick={() => setEdited(NEW)}>New collection</Button>}
      </ListView>
      <Modal opened={edited !== undefined} onClose={() => setEdited(undefined)} title={edited?.collectionId === "" ? "New collection" : "Edit collection"}>
        {edited !== undefined && <CollectionForm collection={edited} onDone={() => setEdited(undefined)} />}
      </Modal>
      <Modal opened={opened !== undefined} onClose={() => setOpened(undefined)} title={<bdi>{opened?.name}</bdi>}>
        {opened !== undefined && <Members collectionId={opened.collectionId} />}
      </Modal>
    </>
  );
}

function CollectionForm({ collection, onDone }: { readonly collection: Edited; readonly onDone: () => void }) {
  const api = useApi();
  const queries = useQueryClient();
  const { collectionId, etag } = collection;
  const [name, setName] = useState(collection.name);
  const [description, setDescription] = useState(collection.description);
  const [rule, setRule] = useState(() => draftOf(collection));
  const problem = problemOf(rule);
  const onSuccess = async () => {
    await queries.invalidateQueries({ queryKey: COLLECTIONS_KEY });
    onDone();
  };
  const save = useMutation({
    mutationFn: async () => {
      const values = { name: name.trim(), description, tagIds: [...rule.tagIds], metadata: metadataOf(rule) };
      if (collectionId === "") return api.service(v1.CollectionService).createCollection({ collection: values });
      return api.service(v1.CollectionService).updateCollection({ collection: { ...values, collectionId, etag }, updateMask: { paths: ["name", "description", "tag_ids", "metadata"] } });
    },
    onSuccess,
  });
  const remove = useMutation({ mutationFn: () => api.service(v1.CollectionService).deleteCollection({ collectionId, etag }), onSuccess });
  const error = save.error ?? remove.error;
  return (
    <form onSubmit={(event) => { event.preventDefault(); save.mutate(); }}>
      <Stack>
        <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} maxLength={NAME_MAX} required data-autofocus />
        <Textarea label="Description" value={description} onChange={(event) => setDescription(event.currentTarget.value)} maxLength={DESCRIPTION_MAX} autosize />
        <RuleFields rule={rule} onChange={setRule} />
        {problem !== "" && <Text size="xs" c="dimmed" role="status">{problem}</Text>}
        {error !== null && <ErrorNotice error={error} />}
        <Group justify="space-between">
          {collectionId !== "" ? <Button variant="subtle" color="red" loading={remove.isPending} onClick={() => remove.mutate()}>Delete</Button> : <span />}
          <Button type="submit" loading={save.isPending} disabled={name.trim() === "" || problem !== ""}>Save</Button>
        </Group>
      </Stack>
    </form>
  );
}

/** The documents of a collection. */
function Members({ collectionId }: { readonly collectionId: string }) {
  const api = useApi();
  const members = useInfiniteQuery({
    queryKey: [...COLLECTIONS_KEY, "documents", collectionId],
    queryFn: ({ pageParam, signal }) => api.service(v1.CollectionService).listCollectionDocuments({ collectionId, pageToken: pageParam, orderBy: "name" }, { signal }),
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
  });
  return (
    <QueryView query={members} empty={({ pages }) => (pages.every(({ documents }) => documents.length === 0) ? <EmptyState title="No documents" text="No document has the tags and the metadata of the rule." /> : undefined)}>
      {({ pages }) => (
        <Stack gap={4}>
          <Stack gap={4} role="list" aria-label="Documents">
            {pages.flatMap(({ documents }) => documents).map(({ documentId, name }) => <div key={documentId} role="listitem"><Anchor component={Link} href={`/documents/${documentId}`} size="sm"><bdi>{name}</bdi></Anchor></div>)}
          </Stack>
          {members.hasNextPage && <MoreButton onClick={() => void members.fetchNextPage()} loading={members.isFetchingNextPage} />}
        </Stack>
      )}
    </QueryView>
  );
}
