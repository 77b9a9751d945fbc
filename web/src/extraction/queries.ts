// The queries and changes of extractions.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { bytesOf, extractionsKey, storeExtraction } from "../document/queries.js";
import { schemaOf, type Json } from "./fields.js";

const EXTRACTIONS_MAX = 20;

/** Returns the newest extractions of a document. */
export function useExtractions(documentId: string) {
  const api = useApi();
  return useQuery({
    queryKey: extractionsKey(documentId),
    queryFn: async ({ signal }) =>
      (await api.service(v1.ExtractionService).listExtractions({ documentId, pageSize: EXTRACTIONS_MAX }, { signal })).extractions,
  });
}

export const extractionKey = (extractionId: string) => ["extraction", extractionId] as const;

/** Returns an extraction that a link names and the newest ones lack. Null: it was deleted. */
export function useExtraction(extractionId: string, isWanted: boolean) {
  const api = useApi();
  return useQuery({
    queryKey: extractionKey(extractionId),
    queryFn: async ({ signal }) => (await api.service(v1.ExtractionService).getExtraction({ extractionId }, { signal })).extraction ?? null,
    enabled: isWanted,
  });
}

/** Returns the JSON Schema of a revision. Revisions do not change. */
export function useSchema(schemaRevid: string) {
  const api = useApi();
  return useQuery({
    queryKey: ["schema revision", schemaRevid],
    queryFn: async ({ signal }) => {
      const { schemaRevision } = await api.service(v1.SchemaService).getSchemaRevision({ schemaRevid }, { signal });
      return schemaOf(schemaRevision?.responseFormatJson ?? "") ?? null;
    },
    enabled: schemaRevid !== "",
    staleTime: Infinity,
  });
}

/** Returns the history of a value. */
export function useHistory(extractionId: string, path: string, isWanted: boolean) {
  const api = useApi();
  return useQuery({
    queryKey: ["history", extractionId, path],
    queryFn: async ({ signal }) => (await api.service(v1.ExtractionService).listFieldHistory({ extractionId, path }, { signal })).changes,
    enabled: isWanted,
    staleTime: 0,
  });
}

/** A decision about a value, or a new value. */
export type Change =
  | { readonly path: string; readonly value: Json }
  | { readonly path: string; readonly decision: v1.FieldDecision };

/** Returns the change of an extraction. It is based on the version that the visitor saw. */
export function useChange({ extractionId, documentId, etag }: v1.Extraction) {
  const api = useApi();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (change: Change) => {
      const target = { extractionId, path: change.path, etag };
      if ("value" in change) {
        return (await api.service(v1.ExtractionService).updateExtractionField({ ...target, valueJson: JSON.stringify(change.value) })).extraction;
      }
      return (await api.service(v1.ExtractionService).reviewExtractionField({ ...target, decision: change.decision })).extraction;
    },
    onSuccess: (changed, { path }) => {
      if (changed === undefined) return;
      storeExtraction(queries, documentId, changed);
      void queries.invalidateQueries({ queryKey: ["history", extractionId, path] });
    },
  });
}

/** Returns the run of a prompt on a document. `promptRevid`: the id of a prompt, or `default`. */
export function useRun(documentId: string) {
  const api = useApi();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (promptRevid: string) => api.extract(documentId, promptRevid),
    onSuccess: (created) => storeExtraction(queries, documentId, created),
  });
}

/** The formats of extractions and of tables, with the endings of their files. */
export const CSV = { format: v1.ExportFormat.CSV, label: "CSV", ending: "csv", type: "text/csv" } as const;
export const XLSX = { format: v1.ExportFormat.XLSX, label: "XLSX", ending: "xlsx", type: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" } as const;

/** The formats of an export, with the endings of their files. */
export const EXPORTS = [
  { format: v1.ExportFormat.JSON, label: "JSON", ending: "json", type: "application/json" },
  CSV,
  XLSX,
] as const;

export type ExportChoice = (typeof EXPORTS)[number];

/** The extractions of an export. */
export type ExportSelection = Partial<Pick<v1.DownloadExtractionsRequest, "documentIds" | "jobIds">>;

/** Returns the export of extractions as a file with this name, to which the ending is added. */
export function useExport(selection: ExportSelection, fileName: string) {
  const api = useApi();
  return useMutation({
    mutationFn: async ({ format, ending, type }: ExportChoice) => {
      const request = { ...selection, format, includeCitations: false };
      const file = await bytesOf(api.service(v1.ExtractionService).downloadExtractions(request), type);
      save(file, `${fileName}.${await endingOf(file, ending)}`);
    },
  });
}

/** Several CSV tables come as a ZIP archive. */
async function endingOf(file: Blob, ending: string): Promise<string> {
  if (ending !== "csv") return ending;
  const start = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return start[0] === 0x50 && start[1] === 0x4b ? "zip" : ending;
}

/** Writes a file to the downloads of the visitor. */
export function save(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href));
}
