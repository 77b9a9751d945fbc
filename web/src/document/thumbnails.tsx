import { UnstyledButton } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import classes from "./page.module.css";
import { usePageImage } from "./queries.js";

const THUMBNAIL_DPI = 50;
const ROW_PX = 150;

interface ThumbnailsProps {
  readonly documentId: string;
  readonly pages: number;
  readonly current: number;
  readonly onPage: (page: number) => void;
}

/** Small images of the pages. */
export function Thumbnails({ documentId, pages, current, onPage }: ThumbnailsProps) {
  const scroll = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: pages,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: 2,
    initialRect: { width: 110, height: 600 },
  });
  useEffect(() => {
    rows.scrollToIndex(current - 1);
  }, [rows, current]);
  return (
    <nav ref={scroll} className={classes["thumbnails"]} aria-label="Thumbnails">
      <div style={{ height: rows.getTotalSize(), position: "relative" }}>
        {rows.getVirtualItems().map(({ index, start, key }) => (
          <div key={key} style={{ position: "absolute", insetInline: 0, height: ROW_PX, transform: `translateY(${start}px)` }}>
            <Thumbnail documentId={documentId} page={index + 1} isCurrent={index + 1 === current} onPage={onPage} />
          </div>
        ))}
      </div>
    </nav>
  );
}

interface ThumbnailProps {
  readonly documentId: string;
  readonly page: number;
  readonly isCurrent: boolean;
  readonly onPage: (page: number) => void;
}

function Thumbnail({ documentId, page, isCurrent, onPage }: ThumbnailProps) {
  const { url } = usePageImage(documentId, page, THUMBNAIL_DPI, true);
  return (
    <UnstyledButton className={classes["thumbnail"] ?? ""} onClick={() => onPage(page)} aria-current={isCurrent ? "page" : undefined} aria-label={`Go to page ${page}`}>
      {url !== undefined && <img src={url} alt="" />}
      {page}
    </UnstyledButton>
  );
}
