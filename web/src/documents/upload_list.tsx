import { Button, Card, Group, Progress, ScrollArea, Stack, Text } from "@mantine/core";
import { Link } from "wouter";
import { adviceFor } from "../errors/advice.js";
import { formatPercent } from "../format.js";
import { FILES_MAX, type Upload } from "./uploads.js";

interface UploadListProps {
  readonly uploads: readonly Upload[];
  /** Number of files of the last drop that exceeded the maximum. */
  readonly refused: number;
  readonly onRetry: (key: number) => void;
  readonly onClear: () => void;
}

/** The progress of each upload. */
export function UploadList({ uploads, refused, onRetry, onClear }: UploadListProps) {
  const done = uploads.filter(({ documentId }) => documentId !== undefined).length;
  const failed = uploads.filter(({ error }) => error !== undefined).length;
  return (
    <Card withBorder padding="sm" component="section" aria-label="Uploads">
      <Group justify="space-between" mb="xs">
        <Text size="sm" role="status">{`${done} of ${uploads.length} uploaded${failed > 0 ? `, ${failed} failed` : ""}`}</Text>
        <Button size="compact-xs" variant="subtle" onClick={onClear}>Clear</Button>
      </Group>
      {refused > 0 && <Text size="sm" c="red" role="alert" mb="xs">{`${refused} files were not uploaded: at most ${FILES_MAX} files are accepted at once. Drop them again.`}</Text>}
      <ScrollArea.Autosize mah={180}>
        <Stack gap={6}>
          {uploads.map(({ key, name, progress, documentId, error }) => (
            <Group key={key} gap="sm" wrap="nowrap">
              <Text size="sm" className="foreign" flex={1} lineClamp={1}>
                {documentId === undefined ? name : <Link href={`/documents/${documentId}`}>{name}</Link>}
              </Text>
              {error === undefined ? (
                <Progress w={120} value={progress * 100} aria-label={`${name}: ${formatPercent(progress)}`} color={documentId === undefined ? "blue" : "green"} />
              ) : (
                <>
                  <Text size="sm" c="red" role="alert" className="foreign" maw={360} lineClamp={2}>{adviceFor(error).text}</Text>
                  <Button size="compact-xs" variant="subtle" aria-label={`Upload ${name} again`} onClick={() => onRetry(key)}>Try again</Button>
                </>
              )}
            </Group>
          ))}
        </Stack>
      </ScrollArea.Autosize>
    </Card>
  );
}
