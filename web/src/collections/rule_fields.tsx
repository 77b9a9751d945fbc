import { ActionIcon, Button, Group, MultiSelect, Stack, Text, TextInput } from "@mantine/core";
import { TagBadge } from "../documents/tag_badge.js";
import { useTags } from "../documents/queries.js";
import { CONDITIONS_MAX, KEY_MAX, metadataTexts, VALUE_BYTES_MAX, type MetadataRow, type RuleDraft } from "./rule.js";

interface RuleFieldsProps {
  readonly rule: RuleDraft;
  readonly onChange: (rule: RuleDraft) => void;
}

/** Edits a rule: tags and metadata values. */
export function RuleFields({ rule, onChange }: RuleFieldsProps) {
  const tags = useTags();
  const { tagIds, metadata } = rule;
  const setRow = (index: number, changes: Partial<MetadataRow>) => onChange({ ...rule, metadata: metadata.map((row, at) => (at === index ? { ...row, ...changes } : row)) });
  return (
    <Stack gap="xs" role="group" aria-label="Rule">
      <MultiSelect label="Tags" description="Members have all of these tags" searchable data={(tags.data ?? []).map(({ tagId, name }) => ({ value: tagId, label: name }))} value={tagIds.filter((id) => tags.data === undefined || tags.data.some(({ tagId }) => tagId === id))} onChange={(tagIds) => onChange({ ...rule, tagIds })} maxValues={CONDITIONS_MAX} />
      {metadata.map(({ key, value }, index) => (
        <Group key={index} gap="xs" align="flex-end" wrap="nowrap">
          <TextInput label={`Metadata key ${index + 1}`} value={key} maxLength={KEY_MAX} onChange={(event) => setRow(index, { key: event.currentTarget.value })} flex={1} />
          <TextInput label={`Value ${index + 1}`} value={value} maxLength={VALUE_BYTES_MAX} onChange={(event) => setRow(index, { value: event.currentTarget.value })} flex={1} dir="auto" />
          <ActionIcon variant="subtle" color="gray" size="lg" aria-label={`Remove metadata value ${index + 1}`} onClick={() => onChange({ ...rule, metadata: metadata.filter((_, at) => at !== index) })}>✕</ActionIcon>
        </Group>
      ))}
      {metadata.length < CONDITIONS_MAX && <Group><Button size="compact-xs" variant="subtle" onClick={() => onChange({ ...rule, metadata: [...metadata, { key: "", value: "" }] })}>Add a metadata value</Button></Group>}
    </Stack>
  );
}

interface RuleTextProps {
  readonly tagIds: readonly string[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** The tags and metadata values of a stored rule. */
export function RuleText({ tagIds, metadata }: RuleTextProps) {
  const tags = useTags();
  const known = new Map((tags.data ?? []).map((tag) => [tag.tagId, tag]));
  return (
    <Group gap={4}>
      {tagIds.map((tagId) => <TagBadge key={tagId} tag={known.get(tagId) ?? { name: tagId, color: "" }} />)}
      {metadataTexts(metadata).map((text) => <Text key={text} span size="xs" className="foreign">{text}</Text>)}
    </Group>
  );
}
