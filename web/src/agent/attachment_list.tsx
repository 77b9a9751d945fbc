import { Alert, CloseButton, Group, Loader, Stack, Text } from "@mantine/core";
import { ErrorNotice } from "../errors/error_notice.js";
import { MessageImage } from "./message_image.js";
import type { Attachments } from "./use_attachments.js";

interface AttachmentListProps {
  readonly attachments: Attachments;
  /** Empty: the conversation has not begun. */
  readonly threadId: string;
}

/** The images of the next message, and the files that were refused. */
export function AttachmentList({ attachments, threadId }: AttachmentListProps) {
  const { items, problems, retry, remove, clearProblems } = attachments;
  const shown = items.filter(({ error }) => error === undefined);
  const refused = items.filter(({ error }) => error !== undefined);
  return (
    <>
      {shown.length > 0 && (
        <Group gap="xs" role="list" aria-label="Images of the message">
          {shown.map(({ key, name, image }, index) => (
            <Group key={key} gap={4} wrap="nowrap" align="flex-start" role="listitem">
              {image === undefined ? <Loader size="sm" aria-label={`Uploading ${name}`} /> : <MessageImage image={image} label={`Image ${index + 1}`} threadId={threadId} />}
              <CloseButton size="sm" aria-label={`Remove image ${index + 1}`} onClick={() => remove(key)} />
            </Group>
          ))}
        </Group>
      )}
      {refused.map((item) => (
        <Stack key={item.key} gap={0}>
          <Text size="xs" className="foreign">{item.name}</Text>
          <ErrorNotice error={item.error} actions={{ retry: () => retry(item) }} onClose={() => remove(item.key)} />
        </Stack>
      ))}
      {problems.length > 0 && (
        <Alert color="red" role="alert" withCloseButton closeButtonLabel="Close" onClose={clearProblems}>
          {problems.map((problem) => <Text key={problem} size="sm" className="foreign">{problem}</Text>)}
        </Alert>
      )}
    </>
  );
}
