import { Button, Group, Select, Textarea } from "@mantine/core";
import { v1 } from "folio-client";
import { useValueEditor } from "../json/value_editor.js";
import { textOf, valueOf } from "./cells.js";

interface CellEditorProps {
  readonly column: v1.StackColumn;
  readonly valueJson: string | undefined;
  readonly isBusy: boolean;
  /** Receives the value as JSON. Empty: removes the value. */
  readonly onSave: (valueJson: string) => void;
  readonly onCancel: () => void;
}

/** Edits the value of a cell. Keys: Enter saves, Escape leaves the value unchanged. */
export function CellEditor({ column, valueJson, isBusy, onSave, onCancel }: CellEditorProps) {
  const submit = (typed: string) => {
    const parsed = valueOf(column, typed);
    if ("problem" in parsed) return parsed.problem;
    onSave(parsed.json);
    return undefined;
  };
  const { text, problem, save, change, onKeyDown } = useValueEditor(() => textOf(valueJson), submit, onCancel);
  const shared = { "aria-label": `Value of ${column.name}`, error: problem, size: "xs", flex: 1, miw: 200, autoFocus: true } as const;
  const choices = choicesOf(column);
  return (
    <Group gap="xs" align="flex-start">
      {choices === undefined ? (
        <Textarea {...shared} value={text} onChange={(event) => change(event.currentTarget.value)} autosize maxRows={8} dir="auto" onKeyDown={onKeyDown} />
      ) : (
        <Select {...shared} data={choices} value={text || null} onChange={(chosen) => change(chosen ?? "")} clearable />
      )}
      <Button size="xs" color="green" loading={isBusy} onClick={save}>Save</Button>
      <Button size="xs" variant="subtle" color="gray" onClick={onCancel}>Cancel</Button>
    </Group>
  );
}

function choicesOf({ type, enumValues }: v1.StackColumn) {
  if (type === v1.StackColumnType.ENUM) return [...new Set(enumValues)].map((value) => ({ value, label: value }));
  if (type === v1.StackColumnType.BOOLEAN) return [{ value: "true", label: "Yes" }, { value: "false", label: "No" }];
  return undefined;
}
