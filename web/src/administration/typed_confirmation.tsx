import { Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { SaveForm } from "./save_form.js";

interface TypedConfirmationProps {
  /** States what is lost. */
  readonly text: string;
  /** The text to type, such as the exact name. */
  readonly expected: string;
  /** The action, such as `Delete`. */
  readonly label: string;
  readonly loading: boolean;
  /** Null: no error. */
  readonly error: unknown;
  readonly onConfirm: (typed: string) => void;
}

/** A permanent deletion, which needs the exact name. */
export function TypedConfirmation({ text, expected, label, loading, error, onConfirm }: TypedConfirmationProps) {
  const [typed, setTyped] = useState("");
  return (
    <SaveForm onSubmit={() => onConfirm(typed)} isPending={loading} error={error} isValid={typed === expected} label={label} color="red">
      <Text size="sm">{text}</Text>
      <Text size="sm">Type <bdi><b>{expected}</b></bdi> to confirm.</Text>
      <TextInput aria-label="Confirmation" value={typed} onChange={(event) => setTyped(event.currentTarget.value)} maxLength={[...expected].length + 20} autoComplete="off" data-autofocus />
    </SaveForm>
  );
}
