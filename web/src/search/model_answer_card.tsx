import { Anchor, Button, Card, Group, Stack, Text } from "@mantine/core";
import { Link } from "wouter";
import { usageSentence } from "../agent/turn_state.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatCount } from "../format.js";
import { LoadingState } from "../states/states.js";
import { Gaps } from "./gaps.js";
import { quoteAddress, type ModelAnswer } from "./passages.js";

interface ModelAnswerCardProps {
  /** Undefined: the model has not answered. */
  readonly answer: ModelAnswer | undefined;
  readonly error: unknown;
  readonly onRetry: () => void;
  readonly onClose: () => void;
}

/** The answer to a question with its quotes, which the server has checked and which lead to their words. Its content is text only. */
export function ModelAnswerCard({ answer, error, onRetry, onClose }: ModelAnswerCardProps) {
  if (error !== null && error !== undefined) return <ErrorNotice error={error} actions={{ retry: onRetry }} onClose={onClose} />;
  if (answer === undefined) return <LoadingState label="The model reads the passages" />;
  const { text, citations, removedCitations, passages, model, usage, gaps } = answer;
  return (
    <Card withBorder padding="sm" component="section" aria-label="Answer">
      <Group justify="space-between" gap="xs">
        <Text size="sm" fw={600}>Answer</Text>
        <Button size="compact-xs" variant="subtle" color="gray" onClick={onClose}>Close</Button>
      </Group>
      <Gaps gaps={gaps} />
      {text === "" ? <Text size="sm" role="status">{passages === 0 ? "No passage was found, so that no model was called." : "The passages contain no answer that a quote supports."}</Text> : <Text size="sm" className="foreign" role="status">{text}</Text>}
      {citations.length > 0 && (
        <Stack gap={4} mt={6} role="list" aria-label="Citations">
          {citations.map((citation, index) => (
            <div key={index} role="listitem">
              <Anchor component={Link} href={quoteAddress(citation)} size="sm">{`[${citation.number}] `}<bdi>{citation.documentName}</bdi>{`, p. ${citation.page}`}</Anchor>
              {citation.sectionTitles.length > 0 && <Text span size="xs" c="dimmed" className="foreign">{` ${citation.sectionTitles.join(" › ")}`}</Text>}
              <Text size="xs" c="dimmed" className="foreign">{citation.quote}</Text>
            </div>
          ))}
        </Stack>
      )}
      {removedCitations > 0 && <Text size="xs" c="dimmed">{`${formatCount(removedCitations, "quote")} of the model did not occur in the passages and ${removedCitations === 1 ? "was" : "were"} removed.`}</Text>}
      {usage !== undefined && usage.modelCalls > 0 && <Text size="xs" c="dimmed"><bdi>{model}</bdi>{`: ${usageSentence(usage)}`}</Text>}
    </Card>
  );
}
