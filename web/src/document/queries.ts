// The queries of one document: its state, pages, words, images and text.
import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi, useStream } from "../api/api.js";
import { useObjectUrl } from "../api/object_url.js";

/** Time after which an image or the words of a page that is not visible are dropped, in milliseconds. */
const PAGE_CACHE_MS = 60_000;
/** Maximum size of the text that the page loads for search and for the text view, in characters. */
const TEXT_MAX = 20_000_000;

export const documentKey = (documentId: string) => ["document", documentId] as const;
export const extractionsKey = (documentId: string) => ["extractions", documentId] as const;

export function useDocument(documentId: string) {
  const api = useApi();
  return useQuery({
    queryKey: documentKey(documentId),
    queryFn: async ({ signal }) => (await api.service(v1.DocumentService).getDocument({ documentId }, { signal })).document ?? null,
  });
}

/** Follows the document and its extractions, and updates their queries with each change. */
export function useLiveDocument(documentId: string): void {
  const api = useApi();
  const queries = useQueryClient();
  useStream(`document ${documentId}`, async (signal) => {
    try {
      for await (const { change } of api.watchDocument(documentId, { signal })) {
        if (change.case === "document" && change.value.document !== undefined) {
          queries.setQueryData(documentKey(documentId), change.value.document);
        } else if (change.case === "extraction") {
          const changed = change.value;
          storeExtraction(queries, documentId, changed);
        } else if (change.case === "removedExtractionId") {
          const removed = change.value;
          queries.setQueryData<v1.Extraction[]>(extractionsKey(documentId), (all) =>
            all?.filter(({ extractionId }) => extractionId !== removed),
          );
        }
      }
      // The stream also ends without an error if the document was deleted.
      if (!signal.aborted) await queries.invalidateQueries({ queryKey: documentKey(documentId) });
    } catch {
      // The queries report what the server refuses; a lost stream leaves their last state.
      await queries.invalidateQueries({ queryKey: documentKey(documentId) });
    }
  });
}

/** Stores a new or changed extraction among those of its document. */
export function storeExtraction(queries: QueryClient, documentId: string, changed: v1.Extraction): void {
  queries.setQueryData<v1.Extraction[]>(extractionsKey(documentId), (all) => merged(all ?? [], changed));
}

/** Returns the extractions with a changed one, newest first. */
function merged(all: readonly v1.Extraction[], changed: v1.Extraction): v1.Extraction[] {
  const isKnown = all.some(({ extractionId }) => extractionId === changed.extractionId);
  if (!isKnown) return [changed, ...all];
  return all.map((extraction) => (extraction.extractionId === changed.extractionId ? changed : extraction));
}

/** Returns the words of a page with their boxes. `generation`: of the text, so that a document that is read again has new words. */
export function usePageWords(documentId: string, generation: string, page: number, isVisible: boolean) {
  const api = useApi();
  return useQuery({
    queryKey: ["words", documentId, generation, page],
    queryFn: ({ signal }) => api.service(v1.DocumentService).getPageWords({ documentId, page }, { signal }),
    enabled: isVisible && generation !== "",
    staleTime: Infinity,
    gcTime: PAGE_CACHE_MS,
  });
}

/** Returns the image of a page as an address of this tab. */
export function usePageImage(documentId: string, page: number, dpi: number, isVisible: boolean) {
  const api = useApi();
  const image = useQuery({
    queryKey: ["image", documentId, page, dpi],
    queryFn: async ({ signal }) => {
      const request = { documentId, page, dpi, format: v1.ImageFormat.WEBP };
      return bytesOf(api.service(v1.DocumentService).getPageImage(request, { signal }), "image/webp");
    },
    enabled: isVisible,
    staleTime: Infinity,
    gcTime: PAGE_CACHE_MS,
  });
  return { url: useObjectUrl(image.data), error: image.error, refetch: image.refetch };
}

/** Reads a stream of parts into a file. */
export async function bytesOf(parts: AsyncIterable<{ readonly chunk: Uint8Array }>, type: string): Promise<Blob> {
  const chunks: BlobPart[] = [];
  for await (const { chunk } of parts) chunks.push(chunk as Uint8Array<ArrayBuffer>);
  return new Blob(chunks, { type });
}

/** Returns the text of all pages. */
export function useDocumentText(documentId: string, generation: string, isWanted: boolean) {
  const api = useApi();
  return useQuery({
    queryKey: ["text", documentId, generation],
    queryFn: async ({ signal }) => {
      const pages: v1.PageText[] = [];
      let size = 0;
      for (let fromPage = 1; fromPage !== 0 && size < TEXT_MAX; ) {
        const part = await api.service(v1.DocumentService).getDocumentText({ documentId, fromPage }, { signal });
        pages.push(...part.pages);
        size += part.pages.reduce((sum, { text }) => sum + text.length, 0);
        fromPage = part.nextPage;
      }
      return pages;
    },
    enabled: isWanted && generation !== "",
    staleTime: Infinity,
  });
}
