import { ActionIcon, Badge, Group, Popover, Text, UnstyledButton } from "@mantine/core";
import { v1 } from "folio-client";
import { lazy, Suspense, useState, type KeyboardEvent } from "react";
import { useFocus } from "../document/focus.js";
import { formatPercent } from "../format.js";
import { LoadingState } from "../states/states.js";
import { confidenceColor, isApproved, isRejected, type Evidence } from "./evidence.js";
import { FieldEditor } from "./field_editor.js";
import type { Field } from "./fields.js";
import type { Change } from "./queries.js";
import { textOf } from "./value.js";

/** Minimum width of a value: in a narrow table, its words stay readable and the table scrolls. */
const VALUE_PX = 90;

const History = lazy(async () => ({ default: (await import("./history.js")).History }));

interface FieldValueProps {
  readonly field: Field;
  readonly evidence: Evidence | undefined;
  readonly extractionId: string;
  readonly canWrite: boolean;
  readonly isBusy: boolean;
  readonly onChange: (change: Change, after: () => void) => void;
}

/** A value with its evidence and its decision. Keys: e edits, a approves, r rejects, Enter jumps to the citation. */
export function FieldValue({ field, evidence, extractionId, canWrite, isBusy, onChange }: FieldValueProps) {
  const [isEditing, setEditing] = useState(false);
  const { setHighlight, goTo } = useFocus();
  const { citation, confidence, review } = evidence ?? {};
  const stop = () => setEditing(false);

  const show = () => setHighlight(citation && { page: citation.page, boxes: citation.boxes });
  const hide = () => setHighlight(undefined);
  const jump = () => {
    if (citation === undefined) return;
    show();
    goTo(citation.page);
  };
  const decide = (decision: v1.FieldDecision) => () => onChange({ path: field.path, decision }, () => undefined);
  const { APPROVED, REJECTED, NONE } = v1.FieldDecision;
  const approve = decide(isApproved(review) ? NONE : APPROVED);
  const reject = decide(isRejected(review) ? NONE : REJECTED);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") jump();
    if (!canWrite) return;
    const action = { e: () => setEditing(true), a: approve, r: reject }[event.key];
    if (action !== undefined) {
      event.preventDefault();
      action();
    }
  };

  if (isEditing) {
    return <FieldEditor field={field} isBusy={isBusy} onCancel={stop} onSave={(value) => onChange({ path: field.path, value }, stop)} />;
  }
  const text = textOf(field.value, field.type);
  return (
    <Group gap={6} wrap="nowrap" flex={1} onMouseEnter={show} onMouseLeave={hide}>
      <UnstyledButton
        flex={1}
        miw={VALUE_PX}
        onClick={jump}
        onDoubleClick={() => canWrite && setEditing(true)}
        onFocus={show}
        onBlur={hide}
        onKeyDown={onKeyDown}
        aria-label={`${field.label}: ${text === "" ? "no value" : text}`}
        aria-keyshortcuts="e a r Enter"
      >
        <Text size="sm" className="foreign" lineClamp={6} {...(text === "" && { c: "dimmed" })}>{text === "" ? "no value" : text}</Text>
      </UnstyledButton>
      {citation !== undefined && <Badge size="xs" variant="outline" color="gray" flex="none" title={citation.quote}>{`p. ${citation.page}`}</Badge>}
      {confidence !== undefined && (
        <Badge size="xs" variant="light" color={confidenceColor(confidence)} flex="none" title="Confidence of the model">{formatPercent(confidence)}</Badge>
      )}
      {canWrite && (
        <>
          <Decision label={`Approve ${field.label}`} isOn={isApproved(review)} color="green" disabled={isBusy} onClick={approve}>✓</Decision>
          <Decision label={`Reject ${field.label}`} isOn={isRejected(review)} color="red" disabled={isBusy} onClick={reject}>✕</Decision>
          <ActionIcon size="sm" variant="subtle" color="gray" aria-label={`Edit ${field.label}`} onClick={() => setEditing(true)}>✎</ActionIcon>
        </>
      )}
      <Popover position="bottom-end" withinPortal>
        <Popover.Target><ActionIcon size="sm" variant="subtle" color="gray" aria-label={`History of ${field.label}`}>⋯</ActionIcon></Popover.Target>
        <Popover.Dropdown>
          <Suspense fallback={<LoadingState />}><History extractionId={extractionId} path={field.path} /></Suspense>
        </Popover.Dropdown>
      </Popover>
    </Group>
  );
}

interface DecisionProps {
  readonly label: string;
  readonly isOn: boolean;
  readonly color: string;
  readonly disabled: boolean;
  readonly onClick: () => void;
  readonly children: string;
}

function Decision({ label, isOn, color, disabled, onClick, children }: DecisionProps) {
  return (
    <ActionIcon size="sm" variant={isOn ? "filled" : "subtle"} color={isOn ? color : "gray"} aria-label={label} aria-pressed={isOn} disabled={disabled} onClick={onClick}>
      {children}
    </ActionIcon>
  );
}
