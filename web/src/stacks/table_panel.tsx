import { Button, Group, Select, Stack, Text } from "@mantine/core";
import { v1 } from "folio-client";
import { useMemo, useState } from "react";
import { useLocation, useSearchParams } from "wouter";
import { ErrorNotice } from "../errors/error_notice.js";
import { useNextPage } from "../lists/use_next_page.js";
import { EmptyState, QueryView } from "../states/states.js";
import { CellReview, decisionChange } from "./cell_review.js";
import { cellOf, evidenceLink, STATES } from "./cells.js";
import { FillControl } from "./fill_control.js";
import { Grid, type CellAction, type Position } from "./grid.js";
import { useCellChange, useReload, useRows, type CellChange } from "./queries.js";
import { countText, rowFilterOf, SHOW_ALL, SHOW_WAITING } from "./rows.js";
import { TableExport } from "./table_export.js";
import { TotalsPanel } from "./totals_panel.js";

const SHOW = [{ value: SHOW_ALL, label: "All rows" }, { value: SHOW_WAITING, label: "Waiting" }, ...STATES.map(({ name, label }) => ({ value: name, label }))];

/** A cell that is selected: the identity of its row and the name of its column. Empty: the document of the row. */
interface Selection {
  readonly stackRowId: string;
  readonly column: string;
  readonly isEditing: boolean;
}

/** The rows of the table with the review of the selected cell. */
export function TablePanel({ stack, canWrite }: { readonly stack: v1.Stack; readonly canWrite: boolean }) {
  const { stackId, name, columns } = stack;
  const [, navigate] = useLocation();
  const [parameters, setParameters] = useSearchParams();
  const filter = useMemo(() => rowFilterOf(parameters), [parameters]);
  const list = useRows(stackId, filter);
  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.rows) ?? [], [list.data]);
  const [selection, setSelection] = useState<Selection>();
  const [hasTotals, setTotals] = useState(false);
  const index = useMemo(() => rows.findIndex(({ stackRowId }) => stackRowId === selection?.stackRowId), [rows, selection?.stackRowId]);
  const row = rows[index];
  const column = columns.find((one) => one.name === selection?.column);
  const reload = useReload(stackId);
  const change = useCellChange(stackId);
  const { hasNextPage, fetchNextPage, isFetchNextPageError } = list;
  const onEnd = useNextPage(list);

  const select = (position: Position, isEditing = false) => {
    const chosen = rows[position.row];
    change.reset();
    if (chosen !== undefined) setSelection({ stackRowId: chosen.stackRowId, column: columns[position.column - 1]?.name ?? "", isEditing });
  };
  const onAction = (position: Position, action: CellAction) => {
    const chosen = rows[position.row];
    const target = columns[position.column - 1];
    if (chosen === undefined) return;
    const cell = target && cellOf(chosen, target.name);
    if (action === "open") {
      const link = target === undefined ? `/documents/${chosen.documentId}` : cell && evidenceLink(chosen, cell);
      if (link === undefined) select(position);
      else navigate(link);
      return;
    }
    select(position, action === "edit" && canWrite && target !== undefined);
    if (action === "edit" || !canWrite || target === undefined || cell?.valueJson === undefined) return;
    const decision = action === "approve" ? v1.FieldDecision.APPROVED : v1.FieldDecision.REJECTED;
    change.mutate({ row: chosen, change: decisionChange(target.name, cell, decision) });
  };
  const onChange = (changed: CellChange) => {
    if (row !== undefined) change.mutate({ row, change: changed }, { onSuccess: () => setSelection((before) => before && { ...before, isEditing: false }) });
  };
  const setFilter = (name: string, value: string) => setParameters((before) => {
    if (value === "" || value === SHOW_ALL) before.delete(name);
    else before.set(name, value);
    return before;
  }, { replace: true });
  const selected = index < 0 || selection === undefined ? undefined : { row: index, column: columns.findIndex((one) => one.name === selection.column) + 1 };
  return (
    <Stack gap="xs">
      <Group justify="space-between" gap="xs">
        <Group gap="xs">
          <Select size="xs" aria-label="Shown rows" data={SHOW} value={filter.show} allowDeselect={false} onChange={(show) => setFilter("show", show ?? SHOW_ALL)} w={140} />
          {filter.documentId !== "" && <Button size="xs" variant="default" onClick={() => setFilter("document", "")}>Show all documents</Button>}
          <FillControl stackId={stackId} canWrite={canWrite} isDefined={columns.length > 0} />
        </Group>
        <Group gap="xs">
          <Button size="xs" variant="default" aria-expanded={hasTotals} onClick={() => setTotals(!hasTotals)}>Totals</Button>
          <TableExport stackId={stackId} name={name} />
        </Group>
      </Group>
      {hasTotals && <TotalsPanel stack={stack} />}
      <QueryView query={list} empty={() => (rows.length === 0 && !hasNextPage ? <EmptyState title="No rows" text={filter.show === SHOW_ALL ? "The rows appear when they are filled." : "No row matches the filter."} /> : undefined)}>
        {({ pages }) => (
          <>
            <Text size="xs" c="dimmed" role="status">{countText(pages)}</Text>
            {row !== undefined && selection !== undefined && (
              <CellReview
                key={`${selection.stackRowId} ${selection.column}`}
                row={row}
                column={column}
                canWrite={canWrite}
                isEditing={selection.isEditing}
                onEditing={(isEditing) => setSelection({ ...selection, isEditing })}
                isBusy={change.isPending}
                error={change.error}
                onChange={onChange}
                onReload={() => { change.reset(); reload(); }}
              />
            )}
            <Grid columns={columns} rows={rows} hasMore={hasNextPage} selected={selected} onSelect={select} onAction={onAction} onEnd={onEnd} />
            {isFetchNextPageError && <ErrorNotice error={list.error} actions={{ retry: () => void fetchNextPage() }} />}
          </>
        )}
      </QueryView>
    </Stack>
  );
}
