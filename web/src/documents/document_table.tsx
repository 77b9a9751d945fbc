import { Badge, Checkbox, Group, Text } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import type { v1 } from "folio-client";
import { useRef, type KeyboardEvent } from "react";
import { Link, useLocation } from "wouter";
import { formatBytes, formatTime } from "../format.js";
import { useEnd } from "../lists/use_end.js";
import { isWriting } from "../shell/navigation.js";
import classes from "./document_table.module.css";
import { stateLabel } from "./filters.js";
import { TagBadge } from "./tag_badge.js";

const ROW_PX = 44;
const OVERSCAN = 12;

interface DocumentTableProps {
  readonly documents: readonly v1.Document[];
  readonly total: number;
  readonly tags: ReadonlyMap<string, v1.Tag>;
  readonly selected: ReadonlySet<string>;
  readonly onSelect: (documentIds: readonly string[], selected: boolean) => void;
  /** Called when the last loaded row becomes visible. */
  readonly onEnd: () => void;
}

/** The documents, of which only the visible rows are rendered. Keys: j and k move, x selects, Enter opens. */
export function DocumentTable({ documents, total, tags, selected, onSelect, onEnd }: DocumentTableProps) {
  const scroll = useRef<HTMLDivElement>(null);
  const [, navigate] = useLocation();
  const rows = useVirtualizer({
    count: documents.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    initialRect: { width: 800, height: 600 },
  });
  const items = rows.getVirtualItems();
  useEnd(items.at(-1)?.index, documents.length, onEnd);

  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    const row = (event.target as HTMLElement).closest("[data-index]");
    const index = Number(row?.getAttribute("data-index") ?? Number.NaN);
    const document = documents[index];
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (document === undefined || (event.key !== "x" && step === undefined)) return;
    if (step === undefined && isWriting(event.nativeEvent) && !(event.target as HTMLElement).matches("[type=checkbox]")) return;
    event.preventDefault();
    if (step === undefined) return onSelect([document.documentId], !selected.has(document.documentId));
    const next = Math.min(Math.max(index + step, 0), documents.length - 1);
    rows.scrollToIndex(next);
    requestAnimationFrame(() => scroll.current?.querySelector<HTMLElement>(`[data-index="${next}"] a`)?.focus());
  };

  const isAllSelected = documents.length > 0 && documents.every(({ documentId }) => selected.has(documentId));
  return (
    <div className={classes["table"]} role="table" aria-label="Documents" aria-rowcount={total + 1}>
      <div role="row" aria-rowindex={1} className={`${classes["row"]} ${classes["head"]}`}>
        <span role="columnheader">
          <Checkbox
            size="xs"
            aria-label="Select all loaded documents"
            checked={isAllSelected}
            indeterminate={!isAllSelected && selected.size > 0}
            onChange={(event) => onSelect(documents.map(({ documentId }) => documentId), event.currentTarget.checked)}
          />
        </span>
        <span role="columnheader">Name</span>
        <span role="columnheader">State</span>
        <span role="columnheader" className={classes["wide"]}>Tags</span>
        <span role="columnheader" className={classes["wide"]}>Pages</span>
        <span role="columnheader" className={classes["wide"]}>Size</span>
        <span role="columnheader" className={classes["wide"]}>Uploaded</span>
      </div>
      <div ref={scroll} className={classes["scroll"]} role="rowgroup" onKeyDown={onKeyDown} tabIndex={-1}>
        <div style={{ height: rows.getTotalSize(), position: "relative" }} role="presentation">
          {items.map(({ index, start }) => {
            const document = documents[index];
            if (document === undefined) return null;
            const { documentId, name, state, stateReason, tagIds, pages, sizeBytes, createTime } = document;
            const { label, color } = stateLabel(state);
            return (
              <div
                key={documentId}
                role="row"
                aria-rowindex={index + 2}
                data-index={index}
                className={classes["row"]}
                style={{ position: "absolute", insetInline: 0, height: ROW_PX, transform: `translateY(${start}px)` }}
                onDoubleClick={() => navigate(`/documents/${documentId}`)}
              >
                <span role="cell">
                  <Checkbox
                    size="xs"
                    aria-label={`Select ${name}`}
                    checked={selected.has(documentId)}
                    onChange={(event) => onSelect([documentId], event.currentTarget.checked)}
                  />
                </span>
                <span role="cell" className={classes["name"]}><Link href={`/documents/${documentId}`}><bdi>{name}</bdi></Link></span>
                <span role="cell"><Badge size="sm" variant="light" color={color} title={stateReason}>{label}</Badge></span>
                <span role="cell" className={classes["wide"]}>
                  <Group gap={4} wrap="nowrap" style={{ overflow: "hidden" }}>
                    {tagIds.map((id) => tags.get(id)).filter((tag) => tag !== undefined).map((tag) => <TagBadge key={tag.tagId} tag={tag} />)}
                  </Group>
                </span>
                <span role="cell" className={classes["wide"]}>{pages > 0 ? pages : ""}</span>
                <span role="cell" className={classes["wide"]}>{formatBytes(sizeBytes)}</span>
                <span role="cell" className={classes["wide"]}><Text size="sm" c="dimmed" truncate>{formatTime(createTime)}</Text></span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
