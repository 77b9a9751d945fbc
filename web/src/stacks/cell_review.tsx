import { Anchor, Badge, Button, Card, Group, Text } from "@mantine/core";
import { v1 } from "folio-client";
import { Link } from "wouter";
import { ErrorNotice } from "../errors/error_notice.js";
import { confidenceColor } from "../extraction/evidence.js";
import { formatPercent, formatTime } from "../format.js";
import { CellEditor } from "./cell_editor.js";
import { cellOf, cellText, evidenceLink, stateOf, waitingCells } from "./cells.js";
import type { CellChange } from "./queries.js";

interface CellReviewProps {
  readonly row: v1.StackRow;
  /** Undefined: the document of the row is selected. */
  readonly column: v1.StackColumn | undefined;
  readonly canWrite: boolean;
  readonly isEditing: boolean;
  readonly onEditing: (isEditing: boolean) => void;
  readonly isBusy: boolean;
  readonly error: unknown;
  readonly onChange: (change: CellChange) => void;
  readonly onReload: () => void;
}

/** The selected cell with its evidence and its decision. */
export function CellReview({ row, column, canWrite, isEditing, onEditing, isBusy, error, onChange, onReload }: CellReviewProps) {
  const { documentId, documentName } = row;
  const waiting = waitingCells(row);
  const { APPROVED, REJECTED } = v1.FieldDecision;
  return (
    <Card withBorder padding="sm" component="section" aria-label="Selected cell">
      <Group justify="space-between" gap="xs">
        <Text size="sm" fw={600}><Anchor component={Link} href={`/documents/${documentId}`} size="sm" underline="always"><bdi>{documentName || "a deleted document"}</bdi></Anchor>{column !== undefined && <>{": "}<bdi>{column.name}</bdi></>}</Text>
        {canWrite && waiting > 0 && <Button size="compact-xs" variant="light" color="green" disabled={isBusy} onClick={() => onChange({ columns: [], decision: APPROVED })}>{`Approve ${waiting} waiting ${waiting === 1 ? "cell" : "cells"} of the row`}</Button>}
      </Group>
      {column !== undefined && (isEditing ? (
        <CellEditor column={column} valueJson={cellOf(row, column.name)?.valueJson} isBusy={isBusy} onCancel={() => onEditing(false)} onSave={(valueJson) => onChange({ column: column.name, valueJson })} />
      ) : (
        <CellDetails row={row} column={column} />
      ))}
      {column !== undefined && canWrite && !isEditing && (
        <Group gap="xs" mt={6}>
          <Decision name={column.name} cell={cellOf(row, column.name)} decision={APPROVED} isBusy={isBusy} onChange={onChange} />
          <Button size="xs" variant="default" disabled={isBusy} onClick={() => onEditing(true)} aria-label={`Edit ${column.name}`}>Edit</Button>
          <Decision name={column.name} cell={cellOf(row, column.name)} decision={REJECTED} isBusy={isBusy} onChange={onChange} />
        </Group>
      )}
      {error !== null && error !== undefined && <ErrorNotice error={error} actions={{ reload: onReload }} />}
    </Card>
  );
}

function CellDetails({ row, column }: { readonly row: v1.StackRow; readonly column: v1.StackColumn }) {
  const cell = cellOf(row, column.name);
  const { label, color } = stateOf(cell);
  const text = cellText(cell);
  const link = cell === undefined ? undefined : evidenceLink(row, cell);
  return (
    <>
      <Text size="sm" className="foreign" mah={160} style={{ overflow: "auto" }} {...(text === "" && { c: "dimmed" })}>{text === "" ? "no value" : text}{text !== "" && column.unit !== "" && ` ${column.unit}`}</Text>
      <Group gap="xs" mt={4}>
        <Badge size="sm" variant="light" color={color}>{label}</Badge>
        {cell?.waiting === true && <Badge size="sm" variant="light" color="yellow">Waits for a decision</Badge>}
        {cell?.approvedByRule === true && <Text size="xs" c="dimmed">approved by the review rule</Text>}
        {cell?.confidence !== undefined && <Badge size="sm" variant="light" color={confidenceColor(cell.confidence)} title="Confidence of the model">{formatPercent(cell.confidence)}</Badge>}
        {cell !== undefined && <Text size="xs" c="dimmed">{`${cell.byAgent ? "by an agent" : "by a person"}, ${formatTime(cell.updateTime)}`}</Text>}
      </Group>
      {link !== undefined && cell?.citation !== undefined ? (
        <Text size="xs" c="dimmed" className="foreign" mt={4}><Anchor component={Link} href={link} size="xs" underline="always">{`p. ${cell.citation.page}`}</Anchor>{` ${cell.citation.quote}`}</Text>
      ) : text !== "" && <Text size="xs" c="dimmed" mt={4}>The value has no citation.</Text>}
    </>
  );
}

interface DecisionProps {
  readonly name: string;
  readonly cell: v1.StackCell | undefined;
  readonly decision: v1.FieldDecision;
  readonly isBusy: boolean;
  readonly onChange: (change: CellChange) => void;
}

function Decision({ name, cell, decision, isBusy, onChange }: DecisionProps) {
  const isApproval = decision === v1.FieldDecision.APPROVED;
  const isOn = isDecided(cell, decision);
  return (
    <Button
      size="xs"
      variant={isOn ? "filled" : "default"}
      {...(isOn && { color: isApproval ? "green" : "red" })}
      aria-label={`${isApproval ? "Approve" : "Reject"} ${name}`}
      aria-pressed={isOn}
      disabled={isBusy || cell?.valueJson === undefined}
      onClick={() => onChange(decisionChange(name, cell, decision))}
    >
      {isApproval ? "Approve" : "Reject"}
    </Button>
  );
}

function isDecided(cell: v1.StackCell | undefined, decision: v1.FieldDecision): boolean {
  return cell?.state === (decision === v1.FieldDecision.APPROVED ? v1.StackCellState.APPROVED : v1.StackCellState.REJECTED);
}

/** Returns the change by a decision: the same decision again withdraws it. */
export function decisionChange(name: string, cell: v1.StackCell | undefined, decision: v1.FieldDecision): CellChange {
  return { columns: [name], decision: isDecided(cell, decision) ? v1.FieldDecision.NONE : decision };
}
