import { Badge, Text } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import type { v1 } from "folio-client";
import { useMemo, useRef, useState, type KeyboardEvent } from "react";
import { useEnd } from "../lists/use_end.js";
import { isWriting } from "../shell/navigation.js";
import { cellOf, cellText, stateOf } from "./cells.js";
import classes from "./grid.module.css";

const ROW_PX = 40;
const HEAD_PX = 44;
const OVERSCAN = 10;
const NAME_PX = 220;
const COLUMN_PX = 200;

/** The position of a cell: the index of its row, and that of its column, where 0 is the document. */
export interface Position {
  readonly row: number;
  readonly column: number;
}

/** An action on a cell by the keyboard. */
export type CellAction = "approve" | "reject" | "edit" | "open";

interface GridProps {
  readonly columns: readonly v1.StackColumn[];
  readonly rows: readonly v1.StackRow[];
  /** True if further rows exist that are not loaded. */
  readonly hasMore: boolean;
  readonly selected: Position | undefined;
  readonly onSelect: (position: Position) => void;
  readonly onAction: (position: Position, action: CellAction) => void;
  /** Called when the last loaded row becomes visible. */
  readonly onEnd: () => void;
}

/**
 * The table, of which only the visible rows are rendered. Keys: the arrows, Home and End move; Enter opens the evidence, e edits, a approves,
 * r rejects.
 */
export function Grid({ columns, rows, hasMore, selected, onSelect, onAction, onEnd }: GridProps) {
  const scroll = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState<Position>({ row: 0, column: 0 });
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    scrollMargin: HEAD_PX,
    scrollPaddingStart: HEAD_PX,
    initialRect: { width: 800, height: 600 },
  });
  const items = virtual.getVirtualItems();
  useEnd(items.at(-1)?.index, rows.length, onEnd);
  const template = useMemo(() => ({ gridTemplateColumns: `${NAME_PX}px repeat(${columns.length}, ${COLUMN_PX}px)` }), [columns.length]);
  // The grid has one tab stop: the active cell, or the first rendered one if that is not rendered.
  const stop = items.some(({ index }) => index === active.row) ? active : { row: items[0]?.index ?? 0, column: Math.min(active.column, columns.length) };

  const focus = (position: Position) => {
    setActive(position);
    virtual.scrollToIndex(position.row);
    requestAnimationFrame(() => scroll.current?.querySelector<HTMLElement>(`[data-cell="${position.row}-${position.column}"]`)?.focus());
  };
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    if (isWriting(event.nativeEvent)) return;
    const [row, column] = (event.target as HTMLElement).getAttribute("data-cell")?.split("-").map(Number) ?? [];
    if (row === undefined || column === undefined) return;
    const moved = movedPosition({ row, column }, event.key, rows.length, columns.length);
    const action = ACTIONS[event.key];
    if (moved !== undefined) focus(moved);
    else if (action !== undefined) onAction({ row, column }, action);
    else return;
    event.preventDefault();
  };
  return (
    <div ref={scroll} className={classes["scroll"]} onKeyDown={onKeyDown}>
      <div className={classes["table"]} role="grid" aria-label="Table" aria-rowcount={hasMore ? -1 : rows.length + 1} aria-colcount={columns.length + 1} aria-multiselectable={false}>
        <div role="rowgroup" className={classes["head"]}>
          <div role="row" aria-rowindex={1} className={classes["row"]} style={{ ...template, height: HEAD_PX }}>
            <span role="columnheader" aria-colindex={1} className={`${classes["cell"]} ${classes["name"]}`}>Document</span>
            {columns.map(({ name, unit, required, description }, index) => (
              <span key={name} role="columnheader" aria-colindex={index + 2} className={classes["cell"]} {...(description !== "" && { title: description })}>
                <bdi className={classes["value"]}>{name}</bdi>
                {(unit !== "" || required) && <Text span size="xs" c="dimmed"><bdi>{unit}</bdi>{required ? " required" : ""}</Text>}
              </span>
            ))}
          </div>
        </div>
        <div role="rowgroup" style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {items.map(({ index, start }) => {
            const row = rows[index];
            if (row === undefined) return null;
            const properties = (column: number) => ({
              "aria-colindex": column + 1,
              "aria-selected": selected?.row === index && selected.column === column,
              "data-cell": `${index}-${column}`,
              tabIndex: stop.row === index && stop.column === column ? 0 : -1,
              onFocus: () => setActive({ row: index, column }),
              onClick: () => onSelect({ row: index, column }),
            });
            return (
              <div key={row.stackRowId} role="row" aria-rowindex={index + 2} className={classes["row"]} style={{ ...template, position: "absolute", insetInline: 0, height: ROW_PX, transform: `translateY(${start - HEAD_PX}px)` }}>
                <div role="rowheader" className={`${classes["cell"]} ${classes["name"]}`} {...properties(0)}><bdi className={classes["value"]}>{row.documentName || "a deleted document"}</bdi></div>
                {columns.map(({ name }, column) => <GridCell key={name} name={name} row={row} properties={properties(column + 1)} />)}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

const ACTIONS: Readonly<Record<string, CellAction | undefined>> = { a: "approve", r: "reject", e: "edit", Enter: "open" };

interface GridCellProps {
  readonly name: string;
  readonly row: v1.StackRow;
  readonly properties: object;
}

function GridCell({ name, row, properties }: GridCellProps) {
  const cell = cellOf(row, name);
  const { label, color } = stateOf(cell);
  const isOutdated = row.missingColumns.includes(name) && cell !== undefined;
  return (
    <div role="gridcell" className={classes["cell"]} aria-keyshortcuts="a r e Enter" {...properties}>
      <bdi className={classes["value"]}>{cellText(cell)}</bdi>
      <Badge size="xs" variant="light" color={color} tt="none" flex="none">{`${label}${cell?.waiting === true ? ", waits" : ""}${isOutdated ? ", outdated" : ""}`}</Badge>
    </div>
  );
}

/** Returns the position after a key. Undefined: the key does not move. */
export function movedPosition({ row, column }: Position, key: string, rows: number, columns: number): Position | undefined {
  const steps: Readonly<Record<string, readonly [rows: number, columns: number] | undefined>> = { ArrowDown: [1, 0], j: [1, 0], ArrowUp: [-1, 0], k: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], PageDown: [10, 0], PageUp: [-10, 0], Home: [0, -columns], End: [0, columns] };
  const step = Object.hasOwn(steps, key) ? steps[key] : undefined;
  if (step === undefined) return undefined;
  const within = (value: number, last: number) => Math.min(Math.max(value, 0), Math.max(last, 0));
  return { row: within(row + step[0], rows - 1), column: within(column + step[1], columns) };
}
