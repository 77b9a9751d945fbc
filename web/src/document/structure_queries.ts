// The queries of the structure of a document.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";

/** Maximum number of responses that are read for an outline, each of about 2 MiB. */
const RESPONSES_MAX = 10;
/** Maximum number of tokens of a part of a section. */
const SECTION_TOKENS = 2_000;

export interface Structure {
  readonly sections: readonly v1.DocumentSection[];
  readonly tables: readonly v1.DocumentTable[];
  /** The first page that was not read. 0: all pages were read. */
  readonly nextPage: number;
}

/** Returns the sections and tables of a document. `generation`: of the text. */
export function useStructure(documentId: string, generation: string) {
  const api = useApi();
  return useQuery({
    queryKey: ["structure", documentId, generation],
    queryFn: async ({ signal }): Promise<Structure> => {
      const sections: v1.DocumentSection[] = [];
      const tables: v1.DocumentTable[] = [];
      let fromPage = 1;
      for (let read = 0; fromPage !== 0 && read < RESPONSES_MAX; read++) {
        const part = await api.service(v1.DocumentService).getDocumentStructure({ documentId, fromPage }, { signal });
        sections.push(...part.sections);
        tables.push(...part.tables);
        fromPage = part.nextPage;
      }
      return { sections, tables, nextPage: fromPage };
    },
    enabled: generation !== "",
    staleTime: Infinity,
  });
}

/** Returns the text of a section in parts. The id is valid until the text of the document is extracted again. */
export function useSection(sectionId: string) {
  const api = useApi();
  return useInfiniteQuery({
    queryKey: ["section", sectionId],
    queryFn: ({ pageParam, signal }) => api.service(v1.DocumentService).getSection({ sectionId: pageParam, maxTokens: SECTION_TOKENS }, { signal }),
    initialPageParam: sectionId,
    getNextPageParam: ({ restId }) => restId || undefined,
    staleTime: Infinity,
  });
}

/** Returns the documents that were detected in a PDF. */
export function useSplitProposal(documentId: string, generation: string) {
  const api = useApi();
  return useQuery({
    queryKey: ["split proposal", documentId, generation],
    queryFn: async ({ signal }) => (await api.service(v1.DocumentService).proposeSplit({ documentId }, { signal })).parts,
    enabled: generation !== "",
    staleTime: Infinity,
  });
}
