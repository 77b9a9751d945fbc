import { Alert, Badge, Card, SegmentedControl, Stack, Title, Group } from "@mantine/core";
import { v1 } from "folio-client";
import { useRef, useState, type KeyboardEvent } from "react";
import { isWriting } from "../shell/navigation.js";
import { EmptyState, QueryView } from "../states/states.js";
import { ApprovalItem } from "./approval_item.js";
import { CellReviewItem } from "./cell_review_item.js";
import { ProposalItem } from "./proposal_item.js";
import { useInbox } from "./queries.js";
import { QuestionItem } from "./question_item.js";
import { ReviewItem } from "./review_item.js";

const KINDS = [
  { value: "all", label: "All" },
  { value: "approval", label: "Approvals" },
  { value: "fieldReview", label: "Reviews" },
  { value: "cellReview", label: "Cells" },
  { value: "proposal", label: "Proposals" },
  { value: "dictionaryQuestion", label: "Questions" },
];

/** The items of all documents that wait for the visitor. Keys: j and k move, Enter opens, a approves or accepts, r rejects. */
export function InboxView() {
  const inbox = useInbox(true);
  const [kind, setKind] = useState("all");
  const list = useRef<HTMLDivElement>(null);
  const shown = (items: readonly v1.InboxItem[]) => items.filter(({ subject }) => kind === "all" || subject.case === kind);

  const onKeyDown = (event: KeyboardEvent) => {
    const cards = [...(list.current?.querySelectorAll<HTMLElement>("[data-item]") ?? [])];
    const current = cards.findIndex((card) => card.contains(document.activeElement));
    if (isWriting(event.nativeEvent)) return;
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    const decision = { a: "approve", r: "reject" }[event.key];
    const card = cards[current];
    if (step !== undefined) cards[Math.min(Math.max(current + step, 0), cards.length - 1)]?.focus();
    else if (event.key === "Enter" && card === document.activeElement) card?.querySelector<HTMLElement>("a")?.click();
    else if (decision !== undefined && card !== undefined) card.querySelector<HTMLElement>(`button[data-decision="${decision}"]`)?.click();
    else return;
    event.preventDefault();
  };
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Title order={1} size="h3">Inbox</Title>
        <SegmentedControl size="xs" aria-label="Kind" data={KINDS} value={kind} onChange={setKind} maw="100%" style={{ overflowX: "auto" }} />
      </Group>
      {inbox.data?.isIncomplete === true && (
        <Alert color="yellow" title="Approvals may be missing" role="status" py="xs">
          The index of approvals was lost or unavailable a short time ago. All approvals are listed again within eleven minutes. A
          conversation always shows its own approvals.
        </Alert>
      )}
      <QueryView query={inbox} empty={({ items }) => (shown(items).length === 0 ? <EmptyState title="Nothing waits for you" text="Approvals, reviews, proposals and questions appear here." /> : undefined)}>
        {({ items }) => (
          <Stack gap="xs" ref={list} onKeyDown={onKeyDown} role="list">
            {shown(items).map((item) => (
              <Card key={item.itemId} withBorder padding="sm" role="listitem" tabIndex={0} data-item>
                <Badge size="xs" variant="light" mb={6}>{LABELS[item.kind] ?? "Item"}</Badge>
                {item.subject.case === "approval" && <ApprovalItem approval={item.subject.value} />}
                {item.subject.case === "fieldReview" && <ReviewItem review={item.subject.value} />}
                {item.subject.case === "cellReview" && <CellReviewItem review={item.subject.value} />}
                {item.subject.case === "proposal" && <ProposalItem proposal={item.subject.value} />}
                {item.subject.case === "dictionaryQuestion" && <QuestionItem question={item.subject.value} />}
              </Card>
            ))}
          </Stack>
        )}
      </QueryView>
    </Stack>
  );
}

const LABELS: Partial<Record<v1.InboxItemKind, string>> = {
  [v1.InboxItemKind.APPROVAL]: "Approval",
  [v1.InboxItemKind.FIELD_REVIEW]: "Review",
  [v1.InboxItemKind.PROPOSAL]: "Proposal",
  [v1.InboxItemKind.DICTIONARY_QUESTION]: "Question",
  [v1.InboxItemKind.CELL_REVIEW]: "Cells",
};
