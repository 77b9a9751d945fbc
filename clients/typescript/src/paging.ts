// The fields of lists. No I/O.
import type { Message } from "@bufbuild/protobuf";

/** A page of a list. */
export interface Page {
  readonly nextPageToken: string;
}

/** The request of a page. */
export interface PageRequest {
  readonly pageToken?: string;
  readonly skip?: number;
}

/** The type of the items of a page. */
export type Item<P> = { [K in keyof P]-?: P[K] extends (infer I)[] ? (I extends Message ? I : never) : never }[keyof P];

/** Returns the items of a page: its first list. A message has its fields in the order of the proto file, also empty lists. */
export function itemsOf<P extends Page>(page: P): Item<P>[] {
  const isList = (value: unknown): value is Item<P>[] => Array.isArray(value);
  return Object.values(page).find(isList) ?? [];
}

/** Returns the request of the page after `page`. Undefined: it is the last one. */
export function nextRequest<R extends PageRequest>(request: R, page: Page): R | undefined {
  if (page.nextPageToken === "") return undefined;
  // The token continues after the skipped items. Without its type name, the copy of a message is a plain initializer.
  const following: R & { $typeName?: unknown } = { ...request, pageToken: page.nextPageToken, skip: 0 };
  delete following.$typeName;
  return following;
}
