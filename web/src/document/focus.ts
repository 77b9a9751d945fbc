// The part of a document that the panels highlight on its pages.
import type { v1 } from "folio-client";
import { createContext, useContext } from "react";

/** A rectangle on a page, in fractions of its width and height. */
export type Box = Pick<v1.BoundingBox, "left" | "top" | "right" | "bottom">;

/** Boxes on a page that are highlighted. */
export interface Highlight {
  readonly page: number;
  readonly boxes: readonly Box[];
  /** Words that are highlighted instead of the boxes if the page contains them. They may continue on the next page. */
  readonly quote?: string;
}

const IMAGE_TYPES = ["application/pdf", "image/png", "image/jpeg", "image/tiff"];

/** Returns true if the server makes images of the pages of such a file. */
export function hasPageImages(mediaType: string): boolean {
  return IMAGE_TYPES.includes(mediaType);
}

export interface DocumentFocus {
  readonly highlight: Highlight | undefined;
  readonly setHighlight: (highlight: Highlight | undefined) => void;
  /** Scrolls to a page. */
  readonly goTo: (page: number) => void;
}

export const FocusContext = createContext<DocumentFocus>({
  highlight: undefined,
  setHighlight: () => undefined,
  goTo: () => undefined,
});

export function useFocus(): DocumentFocus {
  return useContext(FocusContext);
}
