import { Center, Loader } from "@mantine/core";
import type { v1 } from "folio-client";
import { memo, useMemo } from "react";
import { ErrorNotice } from "../errors/error_notice.js";
import { useFocus, type Box, type Highlight } from "./focus.js";
import classes from "./page.module.css";
import { usePageImage, usePageWords } from "./queries.js";
import { matchingWords, quotedWords } from "./search.js";
import { HighlightLayer, TextLayer } from "./text_layer.js";
import { resolutionFor } from "./zoom.js";

const NO_WORDS: ReadonlySet<number> = new Set();

interface PageViewProps {
  readonly documentId: string;
  readonly generation: string;
  readonly page: number;
  /** Width in CSS pixels. */
  readonly width: number;
  readonly height: number;
  readonly search: string;
  readonly onRatio: (page: number, ratio: number) => void;
}

/** Returns the boxes of a page that are highlighted. */
function boxesOn(page: number, highlight: Highlight | undefined, words: readonly v1.PageWord[] | undefined): readonly Box[] {
  if (highlight === undefined) return [];
  const { quote, boxes } = highlight;
  const isNear = page === highlight.page || page === highlight.page + 1;
  const found = quote === undefined || words === undefined || !isNear ? [] : [...quotedWords(words, quote)].flatMap((index) => words[index]?.boundingBox ?? []);
  if (found.length > 0) return found;
  return highlight.page === page ? boxes : [];
}

/** A page: its image, its selectable words, and what a search or a panel highlights. */
export const PageView = memo(function PageView({ documentId, generation, page, width, height, search, onRatio }: PageViewProps) {
  const image = usePageImage(documentId, page, resolutionFor(width, window.devicePixelRatio), true);
  const words = usePageWords(documentId, generation, page, true);
  const { highlight } = useFocus();
  const found = useMemo(() => (search === "" ? NO_WORDS : matchingWords(words.data?.words ?? [], search)), [words.data, search]);
  const boxes = useMemo(() => boxesOn(page, highlight, words.data?.words), [page, highlight, words.data]);
  const size = words.data === undefined || words.data.width <= 0 ? undefined : words.data;
  return (
    <div className={classes["page"]} style={{ width, height }} role="region" aria-label={`Page ${page}`}>
      {image.url !== undefined && (
        <img
          className={classes["image"]}
          src={image.url}
          alt={`Page ${page}`}
          draggable={false}
          onLoad={(event) => onRatio(page, event.currentTarget.naturalHeight / event.currentTarget.naturalWidth)}
        />
      )}
      {image.url === undefined && image.error === null && <Center h="100%"><Loader size="sm" aria-label={`Loading page ${page}`} /></Center>}
      {image.error !== null && <ErrorNotice error={image.error} actions={{ retry: () => void image.refetch() }} />}
      {size !== undefined && <TextLayer words={size.words} width={size.width} height={size.height} found={found} />}
      {(highlight?.page === page || boxes.length > 0) && <HighlightLayer boxes={boxes} />}
    </div>
  );
});
