import { ActionIcon, Card, Group, Text } from "@mantine/core";

/** A message of the user. `onAskAgain`: drops it and what follows, and puts its text into the composer. */
export function UserMessage({ text, onAskAgain }: { readonly text: string; readonly onAskAgain?: () => void }) {
  return (
    <Group justify="flex-end" gap={4} wrap="nowrap">
      {onAskAgain !== undefined && <ActionIcon size="sm" variant="subtle" color="gray" aria-label="Ask again from here" title="Ask again from here" onClick={onAskAgain}>↺</ActionIcon>}
      <Card padding="xs" bg="var(--mantine-color-default-hover)" maw="90%"><Text size="sm" className="foreign">{text}</Text></Card>
    </Group>
  );
}
