import { Anchor, Loader, Text } from "@mantine/core";
import type { v1 } from "folio-client";
import { useObjectUrl } from "../api/object_url.js";
import { useMessageImage } from "./queries.js";

/** Maximum width and height of a shown image, in CSS pixels. */
const SHOWN_MAX = 160;

interface MessageImageProps {
  readonly image: v1.MessageImage;
  /** Names the image for people. */
  readonly label: string;
  /** A thread that contains the image. Empty: the visitor uploaded it. */
  readonly threadId: string;
}

/** An image of a message, which opens in its whole size. */
export function MessageImage({ image, label, threadId }: MessageImageProps) {
  const { imageId, width, height } = image;
  const file = useMessageImage(imageId, threadId);
  const url = useObjectUrl(file.data);
  if (file.error !== null) return <Text size="xs" c="dimmed">{`${label} is not available.`}</Text>;
  if (url === undefined) return <Loader size="sm" aria-label={`Loading ${label}`} />;
  const scale = Math.min(1, SHOWN_MAX / Math.max(width, height, 1));
  return (
    <Anchor href={url} target="_blank" rel="noreferrer" title={`${width} x ${height} pixels`}>
      <img src={url} alt={label} width={Math.ceil(width * scale)} height={Math.ceil(height * scale)} />
    </Anchor>
  );
}
