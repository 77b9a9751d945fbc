import { Button, Group, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { ErrorNotice, type ActionHandlers } from "../errors/error_notice.js";

interface SaveFormProps {
  readonly onSubmit: () => void;
  readonly isPending: boolean;
  /** Null: no error. */
  readonly error: unknown;
  /** False if the server would refuse the values. */
  readonly isValid: boolean;
  readonly label?: string;
  readonly color?: string;
  /** Loads the stored state again after a conflict. Default: all loaded data is read again. */
  readonly onReload?: () => void;
  /** The fields. */
  readonly children: ReactNode;
}

/** A form of a dialog: its fields, the error of the last attempt, and the button that sends it. */
export function SaveForm({ onSubmit, isPending, error, isValid, label = "Save", color, onReload, children }: SaveFormProps) {
  const actions: ActionHandlers = onReload === undefined ? {} : { reload: onReload };
  return (
    <form onSubmit={(event) => { event.preventDefault(); onSubmit(); }}>
      <Stack gap="sm">
        {children}
        {error !== null && <ErrorNotice error={error} actions={actions} />}
        <Group justify="flex-end"><Button type="submit" loading={isPending} disabled={!isValid} {...(color !== undefined && { color })}>{label}</Button></Group>
      </Stack>
    </form>
  );
}
