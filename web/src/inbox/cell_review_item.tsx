import { Anchor, Group, Text } from "@mantine/core";
import type { v1 } from "folio-client";
import { Link } from "wouter";
import { useDocument } from "../document/queries.js";

/** A row of a stack whose cells wait for decisions. */
export function CellReviewItem({ review }: { readonly review: v1.PendingCellReview }) {
  const { stackId, documentId, waitingCells, approvedCells, rejectedCells } = review;
  const document = useDocument(documentId);
  return (
    <Group justify="space-between">
      <Text size="sm">Review cells of <Anchor component={Link} href={`/stacks/${stackId}?document=${documentId}`} size="sm"><bdi>{document.data?.name ?? "a document"}</bdi></Anchor></Text>
      <Text size="xs" c="dimmed">{`${waitingCells} ${waitingCells === 1 ? "cell waits" : "cells wait"}, ${approvedCells} approved, ${rejectedCells} rejected`}</Text>
    </Group>
  );
}
