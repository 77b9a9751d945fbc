import { ActionIcon, Badge, Button, Group, Modal, Select, Text, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useSearchParams } from "wouter";
import { useApi } from "../api/api.js";
import { formatPercent, formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { usePermits } from "../session/session_context.js";
import { DictionaryFiles } from "./dictionary_files.js";
import { entryFilter, entryFiltersOf, provenanceOf, PROVENANCES, TAG_MAX } from "./entries.js";
import { EntryForm, NEW_ENTRY, type EditedEntry } from "./entry_form.js";

const KEY = ["dictionary"] as const;

/** The terms of the organization with their meanings. The address contains the filters. */
export function DictionaryView() {
  const api = useApi();
  const queries = useQueryClient();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS);
  const [parameters, setParameters] = useSearchParams();
  const [text, setText] = useState("");
  const [edited, setEdited] = useState<EditedEntry>();
  const filters = entryFiltersOf(parameters);
  const filter = entryFilter({ text, ...filters });
  const set = (name: "tag" | "provenance", value: string) =>
    setParameters((before) => {
      const after = new URLSearchParams(before);
      if (value === "") after.delete(name);
      else after.set(name, value);
      return after;
    }, { replace: true });
  const reload = () => queries.invalidateQueries({ queryKey: KEY });
  return (
    <>
      <ListView<v1.DictionaryEntry>
        title="Dictionary"
        queryKey={[...KEY, { filter }]}
        load={async (pageToken, signal) => {
          const { dictionaryEntries, nextPageToken } = await api.service(v1.DictionaryService).listDictionaryEntries({ filter, pageToken, orderBy: "name" }, { signal });
          return { items: dictionaryEntries, nextPageToken };
        }}
        keyOf={({ dictionaryEntryId }) => dictionaryEntryId}
        emptyText="The dictionary contains abbreviations and names with their meanings, which agents and searches use."
        onSearch={setText}
        columns={[
          { label: "Term", cell: ({ term }) => <Text size="sm" fw={500} component="bdi">{term}</Text> },
          { label: "Meaning", cell: ({ expansion, disambiguation }) => <><Text size="sm">{expansion}</Text>{disambiguation !== "" && <Text size="xs" c="dimmed" lineClamp={2}>{disambiguation}</Text>}</> },
          { label: "Tags", cell: ({ tags }) => <Group gap={4}>{tags.map((tag) => <Badge key={tag} variant="default" size="sm" tt="none" fw={500}><bdi>{tag}</bdi></Badge>)}</Group> },
          { label: "Origin", cell: (entry) => <Origin entry={entry} /> },
          { label: "Changed", cell: ({ updateTime }) => formatTime(updateTime) },
          { label: "", cell: (entry) => canWrite && <ActionIcon variant="subtle" color="gray" aria-label={`Edit ${entry.term}`} onClick={() => setEdited(entry)}>✎</ActionIcon> },
        ]}
      >
        <Select size="xs" aria-label="Origin" placeholder="Any origin" data={PROVENANCES.map(({ value, label }) => ({ value, label }))} value={filters.provenance || null} onChange={(value) => set("provenance", value ?? "")} clearable w={130} />
        <TextInput size="xs" aria-label="Tag" placeholder="Any tag" maxLength={TAG_MAX} defaultValue={filters.tag} onBlur={(event) => set("tag", event.currentTarget.value.trim())} onKeyDown={(event) => { if (event.key === "Enter") set("tag", event.currentTarget.value.trim()); }} w={120} />
        <DictionaryFiles filter={filter} canWrite={canWrite} onImported={reload} />
        {canWrite && <Button size="xs" onClick={() => setEdited(NEW_ENTRY)}>New entry</Button>}
      </ListView>
      <Modal opened={edited !== undefined} onClose={() => setEdited(undefined)} title={edited?.dictionaryEntryId === "" ? "New entry" : "Edit entry"}>
        {edited !== undefined && <EntryForm key={edited.dictionaryEntryId} entry={edited} onChanged={reload} onDone={() => setEdited(undefined)} />}
      </Modal>
    </>
  );
}

function Origin({ entry: { provenance, confidence } }: { readonly entry: v1.DictionaryEntry }) {
  const { label, color } = provenanceOf(provenance);
  const text = confidence === undefined ? label : `${label}, ${formatPercent(confidence)}`;
  return <Badge size="sm" variant="light" tt="none" color={color}>{text}</Badge>;
}
