// The part of a document that the panels highlight on its pages.
import type { v1 } from "folio-client";
import { createContext, useContext } from "react";

/** Boxes on a page that are highlighted. */
export interface Highlight {
  readonly page: number;
  readonly boxes: readonly v1.BoundingBox[];
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
