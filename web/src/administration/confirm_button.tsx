import { Button, Group } from "@mantine/core";
import { useState } from "react";

interface ConfirmButtonProps {
  /** The action, such as `Delete`. */
  readonly label: string;
  /** The name of the resource, for screen readers. */
  readonly name: string;
  readonly onConfirm: () => void;
  readonly loading?: boolean;
}

/** A button whose action needs a second press. */
export function ConfirmButton({ label, name, onConfirm, loading = false }: ConfirmButtonProps) {
  const [isArmed, setArmed] = useState(false);
  if (!isArmed) return <Button size="compact-xs" variant="subtle" color="red" loading={loading} aria-label={`${label} ${name}`} onClick={() => setArmed(true)}>{label}</Button>;
  const confirm = () => {
    setArmed(false);
    onConfirm();
  };
  return (
    <Group gap={4} wrap="nowrap" role="group" aria-label={`${label} ${name}?`}>
      <Button size="compact-xs" color="red" autoFocus onClick={confirm} aria-label={`Confirm: ${label} ${name}`}>{`${label}?`}</Button>
      <Button size="compact-xs" variant="subtle" color="gray" onClick={() => setArmed(false)}>Back</Button>
    </Group>
  );
}
