import { Badge } from "@mantine/core";
import type { v1 } from "folio-client";

const COLOR = /^#[0-9a-f]{6}$/i;

/** The name of a tag with its color. The border carries the color, so that the text has the contrast of the theme. */
export function TagBadge({ tag }: { readonly tag: Pick<v1.Tag, "name" | "color"> }) {
  const border = COLOR.test(tag.color) ? tag.color : undefined;
  return (
    <Badge variant="default" size="sm" tt="none" fw={500} {...(border && { style: { borderColor: border } })}>
      <bdi>{tag.name}</bdi>
    </Badge>
  );
}
