import { ActionIcon, Group, Select, Textarea, TextInput } from "@mantine/core";
import { useValueEditor } from "../json/value_editor.js";
import type { Field, Json } from "./fields.js";
import { textOf, valueOf } from "./value.js";

interface FieldEditorProps {
  readonly field: Field;
  readonly isBusy: boolean;
  readonly onSave: (value: Json) => void;
  readonly onCancel: () => void;
}

/** Edits a value. Keys: Enter saves, Escape leaves the value unchanged. */
export function FieldEditor({ field, isBusy, onSave, onCancel }: FieldEditorProps) {
  const submit = (typed: string) => {
    const parsed = valueOf(field, typed);
    if ("problem" in parsed) return parsed.problem;
    onSave(parsed.value);
    return undefined;
  };
  const { text, problem, save, change, onKeyDown } = useValueEditor(() => textOf(field.value, field.type), submit, onCancel);
  const shared = { "aria-label": `Value of ${field.label}`, error: problem, size: "xs", flex: 1, autoFocus: true } as const;
  return (
    <Group gap={4} wrap="nowrap" align="flex-start" flex={1}>
      {choicesOf(field) !== undefined ? (
        <Select {...shared} data={choicesOf(field) ?? []} value={text} onChange={(value) => change(value ?? "")} clearable={field.isNullable} onKeyDown={onKeyDown} />
      ) : field.type === "json" || text.includes("\n") || text.length > 80 ? (
        <Textarea {...shared} value={text} onChange={(event) => change(event.currentTarget.value)} autosize maxRows={12} onKeyDown={onKeyDown} />
      ) : (
        <TextInput {...shared} value={text} onChange={(event) => change(event.currentTarget.value)} inputMode={field.type === "string" ? "text" : "decimal"} onKeyDown={onKeyDown} />
      )}
      <ActionIcon onClick={save} loading={isBusy} aria-label="Save" color="green" variant="light">✓</ActionIcon>
      <ActionIcon onClick={onCancel} aria-label="Cancel" color="gray" variant="subtle">✕</ActionIcon>
    </Group>
  );
}

function choicesOf(field: Field) {
  if (field.choices.length > 0) {
    const texts = field.choices.filter((choice) => choice !== null).map((choice) => textOf(choice, field.type));
    return [...new Set(texts)].map((text) => ({ value: text, label: text }));
  }
  if (field.type === "boolean") return [{ value: "true", label: "Yes" }, { value: "false", label: "No" }];
  return undefined;
}
