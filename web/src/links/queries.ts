// Queries of missing links: targets in documents that match no document of the organization.
import { v1 } from "folio-client";
import type { Api } from "../api/api.js";

export const MISSING_LINKS_KEY = ["missing links"] as const;

/** Returns a page of the targets that match no document of the organization, the oldest reference first. */
export async function missingLinks(api: Api, pageToken: string, signal: AbortSignal): Promise<{ readonly items: readonly v1.MissingLink[]; readonly nextPageToken: string }> {
  const { links, nextPageToken } = await api.service(v1.LinkService).listMissingLinks({ pageToken }, { signal });
  return { items: links, nextPageToken };
}
