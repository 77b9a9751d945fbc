// The editor of JSON in jsdom.
import type { JsonEditorProps } from "../src/json/json_editor.js";

export function CodeEditor({ label, value, onChange, isInvalid, readOnly, maxLength }: JsonEditorProps) {
  return <textarea aria-label={label} aria-invalid={isInvalid === true} value={value} onChange={(event) => onChange(event.currentTarget.value)} readOnly={readOnly === true} maxLength={maxLength} />;
}
