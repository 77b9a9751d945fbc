import { Group, Select, Text } from "@mantine/core";
import { SearchSelect } from "../lists/search_select.js";
import { useCollection, useCollectionOptions } from "../collections/queries.js";
import { DocumentLink } from "../documents/document_link.js";
import { DocumentMultiSelect } from "../documents/document_multi_select.js";
import { useTags } from "../documents/queries.js";
import { DOCUMENTS_MAX, type Scope, type ScopeKind } from "./scope.js";

const KINDS: readonly { readonly value: ScopeKind; readonly label: string }[] = [
  { value: "all", label: "All documents" },
  { value: "documents", label: "Named documents" },
  { value: "tag", label: "A tag" },
  { value: "collection", label: "A collection" },
];
const ALL: Scope = { kind: "all", documentIds: [], tagId: "", collectionId: "" };

/** The choices after a conversation has begun, whose documents do not change. */
const RESTRICTIONS = KINDS.filter(({ value }) => value !== "documents");

interface ScopeSelectProps {
  readonly scope: Scope;
  readonly onChange: (scope: Scope) => void;
  readonly kinds?: typeof KINDS;
}

/** Chooses the documents of a conversation. */
export function ScopeSelect({ scope, onChange, kinds = KINDS }: ScopeSelectProps) {
  const { kind, documentIds, collectionId } = scope;
  return (
    <Group gap="xs" align="flex-end" role="group" aria-label="Documents of the conversation">
      <Select size="xs" label="About" data={kinds} value={kind} allowDeselect={false} onChange={(chosen) => onChange({ ...ALL, kind: KINDS.find(({ value }) => value === chosen)?.value ?? "all" })} w={170} />
      {kind === "documents" && <div style={{ flex: 1, minWidth: 220 }}><DocumentMultiSelect size="xs" label="Documents" value={documentIds} max={DOCUMENTS_MAX} onChange={(ids) => onChange({ ...scope, documentIds: ids })} /></div>}
      {kind === "tag" && <TagSelect scope={scope} onChange={onChange} />}
      {kind === "collection" && <CollectionSelect size="xs" label="Collection" value={collectionId} onChange={(id) => onChange({ ...scope, collectionId: id })} />}
    </Group>
  );
}

function TagSelect({ scope, onChange }: ScopeSelectProps) {
  const tags = useTags();
  return <Select size="xs" label="Tag" placeholder="Tag" searchable data={(tags.data ?? []).map(({ tagId, name }) => ({ value: tagId, label: name }))} value={scope.tagId || null} onChange={(tagId) => onChange({ ...scope, tagId: tagId ?? "" })} w={220} />;
}

interface CollectionSelectProps {
  /** Empty: none. */
  readonly value: string;
  readonly onChange: (collectionId: string) => void;
  readonly label?: string;
  readonly "aria-label"?: string;
  readonly size?: "xs";
  readonly clearable?: boolean;
}

/** Chooses a collection, which the server searches by name. */
export function CollectionSelect({ value, onChange, ...input }: CollectionSelectProps) {
  const stored = useCollection(value);
  // The name is read once: the input keeps the label of its first value.
  if (value !== "" && stored.isPending) return <Text size="xs" c="dimmed" role="status">Reading the collection</Text>;
  return <SearchSelect {...input} placeholder="Any collection" w={220} value={value} firstLabel={stored.data?.name ?? value} useFound={useCollectionOptions} onChange={onChange} />;
}

/** The documents of a conversation that has begun, and the tag or collection to which its next messages are restricted. */
export function ThreadScope({ documentIds, scope, onChange }: ScopeSelectProps & { readonly documentIds: readonly string[] }) {
  if (documentIds.length === 0) return <ScopeSelect scope={scope} onChange={onChange} kinds={RESTRICTIONS} />;
  return (
    <Group gap="xs">
      <Text size="xs" c="dimmed">About</Text>
      {documentIds.map((documentId) => <DocumentLink key={documentId} documentId={documentId} />)}
    </Group>
  );
}
