import { Anchor, Group, Text } from "@mantine/core";
import type { v1 } from "folio-client";
import { Link } from "wouter";
import { useDocument } from "../document/queries.js";

/** An extraction whose values wait for decisions. */
export function ReviewItem({ review }: { readonly review: v1.PendingReview }) {
  const { extractionId, documentId, values, approvedValues, rejectedValues } = review;
  const document = useDocument(documentId);
  return (
    <Group justify="space-between">
      <Text size="sm">Review values of <Anchor component={Link} href={`/documents/${documentId}?panel=extraction&extraction=${extractionId}`} size="sm"><bdi>{document.data?.name ?? "a document"}</bdi></Anchor></Text>
      <Text size="xs" c="dimmed">{`${approvedValues} of ${values} values approved, ${rejectedValues} rejected`}</Text>
    </Group>
  );
}
