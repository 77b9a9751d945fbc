import { Button, Group, Stack, TagsInput, Text, Textarea, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { DocumentLink } from "../documents/document_link.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { DISAMBIGUATION_MAX, EXPANSION_MAX, tagsProblem, TERM_MAX } from "./entries.js";

export type EditedEntry = Pick<v1.DictionaryEntry, "dictionaryEntryId" | "term" | "expansion" | "disambiguation" | "tags" | "sourceDocumentIds" | "etag">;
export const NEW_ENTRY: EditedEntry = { dictionaryEntryId: "", term: "", expansion: "", disambiguation: "", tags: [], sourceDocumentIds: [], etag: "" };

interface EntryFormProps {
  readonly entry: EditedEntry;
  readonly onChanged: () => Promise<unknown>;
  readonly onDone: () => void;
}

/** Creates, changes or deletes an entry. Saving an entry confirms its meaning, so that agents no longer change it. */
export function EntryForm({ entry, onChanged, onDone }: EntryFormProps) {
  const api = useApi();
  const { dictionaryEntryId, etag, sourceDocumentIds } = entry;
  const [{ term, expansion, disambiguation, tags }, setValues] = useState(entry);
  const change = (changes: Partial<EditedEntry>) => setValues((before) => ({ ...before, ...changes }));
  const onSuccess = async () => {
    await onChanged();
    onDone();
  };
  const save = useMutation({
    mutationFn: async () => {
      const values = { term: term.trim(), expansion: expansion.trim(), disambiguation: disambiguation.trim(), tags };
      if (dictionaryEntryId === "") return api.service(v1.DictionaryService).createDictionaryEntry({ dictionaryEntry: values });
      return api.service(v1.DictionaryService).updateDictionaryEntry({
        dictionaryEntry: { ...values, dictionaryEntryId, etag, provenance: v1.DictionaryProvenance.PERSON },
        updateMask: { paths: ["term", "expansion", "disambiguation", "tags", "provenance"] },
      });
    },
    onSuccess,
  });
  const remove = useMutation({ mutationFn: () => api.service(v1.DictionaryService).deleteDictionaryEntry({ dictionaryEntryId, etag }), onSuccess });
  const error = save.error ?? remove.error;
  const problem = tagsProblem(tags);
  const isValid = term.trim() !== "" && expansion.trim() !== "" && problem === undefined;
  return (
    <form onSubmit={(event) => { event.preventDefault(); save.mutate(); }}>
      <Stack>
        <TextInput label="Term" value={term} onChange={(event) => change({ term: event.currentTarget.value })} maxLength={TERM_MAX} required data-autofocus />
        <TextInput label="Meaning" value={expansion} onChange={(event) => change({ expansion: event.currentTarget.value })} maxLength={EXPANSION_MAX} required />
        <Textarea label="Distinction" description="Distinguishes the meaning from others of the same term." value={disambiguation} onChange={(event) => change({ disambiguation: event.currentTarget.value })} maxLength={DISAMBIGUATION_MAX} autosize />
        <TagsInput label="Tags" description="Such as a region or a business unit. Enter adds a tag." value={[...tags]} onChange={(tags) => change({ tags })} error={problem} />
        {sourceDocumentIds.length > 0 && (
          <Stack gap={2} component="section" aria-label="Source documents">
            <Text size="sm" fw={500}>Source documents</Text>
            {sourceDocumentIds.map((documentId) => <DocumentLink key={documentId} documentId={documentId} />)}
          </Stack>
        )}
        {error !== null && <ErrorNotice error={error} />}
        <Group justify="space-between">
          {dictionaryEntryId !== "" ? <Button variant="subtle" color="red" loading={remove.isPending} onClick={() => remove.mutate()}>Delete</Button> : <span />}
          <Button type="submit" loading={save.isPending} disabled={!isValid}>Save</Button>
        </Group>
      </Stack>
    </form>
  );
}
