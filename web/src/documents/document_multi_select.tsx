import { MultiSelect } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useRef, useState } from "react";
import { useApi } from "../api/api.js";
import { nameFilter, TEXT_MAX } from "./filters.js";

const SEARCH_DELAY_MS = 250;
const FOUND_MAX = 50;

interface DocumentMultiSelectProps {
  readonly label: string;
  readonly description?: string;
  readonly value: readonly string[];
  /** Names of documents by their ids, for those that no search has found. */
  readonly names?: ReadonlyMap<string, string>;
  readonly onChange: (documentIds: string[]) => void;
  /** Maximum number of documents. */
  readonly max: number;
  readonly size?: "xs";
}

/** Chooses documents, which the server searches by a part of their name. */
export function DocumentMultiSelect({ label, description, value, names: first, onChange, max, size }: DocumentMultiSelectProps) {
  const [text, setText] = useState("");
  const [searched] = useDebouncedValue(text, SEARCH_DELAY_MS);
  const found = useFoundDocuments(searched);
  // The names of chosen documents that a later search does not find.
  const names = useRef(new Map(first));
  for (const { documentId, name } of found.data ?? []) names.current.set(documentId, name);
  const ids = [...new Set([...(found.data ?? []).map(({ documentId }) => documentId), ...value])];
  return (
    <MultiSelect
      label={label}
      {...(description !== undefined && { description })}
      {...(size !== undefined && { size })}
      placeholder={value.length === 0 ? "Search by name" : ""}
      data={ids.map((id) => ({ value: id, label: names.current.get(id) ?? id }))}
      value={[...value]}
      onChange={onChange}
      maxValues={max}
      searchable
      searchValue={text}
      onSearchChange={(typed) => setText(typed.slice(0, TEXT_MAX))}
      hidePickedOptions
      nothingFoundMessage="No document"
    />
  );
}

/** Returns documents whose name contains a text, by name. */
function useFoundDocuments(text: string) {
  const api = useApi();
  const filter = nameFilter(text);
  return useQuery({
    queryKey: ["documents", "named", { filter }],
    queryFn: async ({ signal }) => (await api.service(v1.DocumentService).listDocuments({ filter, pageSize: FOUND_MAX, orderBy: "name" }, { signal })).documents,
    placeholderData: keepPreviousData,
  });
}
