import { ActionIcon, Card, Group, Text } from "@mantine/core";
import type { v1 } from "folio-client";
import { MessageImage } from "./message_image.js";

interface UserMessageProps {
  readonly text: string;
  readonly images: readonly v1.MessageImage[];
  /** The thread that contains the message. */
  readonly threadId: string;
  /** Drops the message and what follows, and puts its text and its images into the composer. */
  readonly onAskAgain?: () => void;
}

/** A message of the user. */
export function UserMessage({ text, images, threadId, onAskAgain }: UserMessageProps) {
  return (
    <Group justify="flex-end" gap={4} wrap="nowrap">
      {onAskAgain !== undefined && <ActionIcon size="sm" variant="subtle" color="gray" aria-label="Ask again from here" title="Ask again from here" onClick={onAskAgain}>↺</ActionIcon>}
      <Card padding="xs" bg="var(--mantine-color-default-hover)" maw="90%">
        <Text size="sm" className="foreign">{text}</Text>
        {images.length > 0 && (
          <Group gap="xs" mt={4}>
            {images.map((image, index) => <MessageImage key={image.imageId} image={image} label={`Image ${index + 1} of the message`} threadId={threadId} />)}
          </Group>
        )}
      </Card>
    </Group>
  );
}
