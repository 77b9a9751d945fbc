import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useImperativeHandle, useRef, useState, type Ref } from "react";
import classes from "./page.module.css";
import { PageView } from "./page_view.js";
import { PAGE_PX, RATIO } from "./zoom.js";

const GAP_PX = 12;

/** Scrolls the pages. */
export interface PagesHandle {
  goTo(page: number): void;
}

interface PagesPaneProps {
  readonly ref?: Ref<PagesHandle>;
  readonly documentId: string;
  readonly generation: string;
  readonly pages: number;
  readonly zoom: number;
  readonly search: string;
  /** The page that is shown first. */
  readonly initialPage: number;
  readonly onPage: (page: number) => void;
}

/** The pages below each other. Only the visible pages and their neighbours are loaded. */
export function PagesPane({ ref, documentId, generation, pages, zoom, search, initialPage, onPage }: PagesPaneProps) {
  const scroll = useRef<HTMLDivElement>(null);
  const [ratios, setRatios] = useState<ReadonlyMap<number, number>>(new Map());
  const { ref: measured, width: available } = useElementSize();
  const scrolled = useMergedRef(scroll, measured);
  // At zoom 1, a page fits into the pane.
  const base = available > 2 * GAP_PX ? Math.min(PAGE_PX, available - 2 * GAP_PX) : PAGE_PX;
  const width = Math.round(base * zoom);
  const heightOf = useCallback((page: number) => Math.round(width * (ratios.get(page) ?? RATIO)), [width, ratios]);
  const rows = useVirtualizer({
    count: pages,
    getScrollElement: () => scroll.current,
    estimateSize: (index) => heightOf(index + 1) + GAP_PX,
    overscan: 1,
    initialRect: { width: 800, height: 800 },
  });
  // The page that stays at the top while the sizes of pages change, until the visitor scrolls.
  const goal = useRef<number | undefined>(initialPage > 1 ? initialPage : undefined);
  const goTo = useCallback((page: number) => {
    goal.current = Math.min(Math.max(page, 1), pages);
    rows.scrollToIndex(goal.current - 1, { align: "start" });
  }, [rows, pages]);
  useImperativeHandle(ref, () => ({ goTo }), [goTo]);
  useEffect(() => {
    rows.measure();
    if (goal.current !== undefined) goTo(goal.current);
  }, [rows, heightOf, goTo]);
  const release = () => {
    goal.current = undefined;
  };
  const onRatio = useCallback((page: number, ratio: number) => {
    if (Number.isFinite(ratio) && ratio > 0) setRatios((all) => (all.get(page) === ratio ? all : new Map(all).set(page, ratio)));
  }, []);

  const items = rows.getVirtualItems();
  const offset = rows.scrollOffset ?? 0;
  const current = (items.find(({ end }) => end > offset + GAP_PX)?.index ?? 0) + 1;
  useEffect(() => onPage(current), [current, onPage]);
  return (
    <div ref={scrolled} className={classes["pages"]} tabIndex={0} role="group" aria-label="Pages" onWheel={release} onTouchMove={release} onPointerDown={release} onKeyDown={release}>
      <div style={{ height: rows.getTotalSize(), position: "relative", minWidth: width }}>
        {items.map(({ index, start }) => (
          <div key={index} style={{ position: "absolute", insetInline: 0, transform: `translateY(${start + GAP_PX / 2}px)` }}>
            <PageView documentId={documentId} generation={generation} page={index + 1} width={width} height={heightOf(index + 1)} search={search} onRatio={onRatio} />
          </div>
        ))}
      </div>
    </div>
  );
}
