import { Anchor, Badge, Card, Code, Group, List, Stack, Text } from "@mantine/core";
import { Link } from "wouter";
import { DocumentLink } from "../documents/document_link.js";
import { confidenceColor } from "../extraction/evidence.js";
import { formatDate, formatPercent } from "../format.js";
import { readAnswer, sourceLink, type Answer, type Source } from "./answers.js";
import { indented } from "./calls.js";
import type { TypedAnswer } from "./steps.js";

const TITLES = { answer: "Answer", summary: "Summary", calculation: "Calculation" } as const;

/** The typed answer of a turn with its sources, which lead to their passages. Its content is text only. */
export function AnswerCard({ answer }: { readonly answer: TypedAnswer }) {
  const read = readAnswer(answer);
  // A newer server may know further types.
  if (read === undefined) return <Code block className="foreign">{indented(answer.json)}</Code>;
  const { kind, confidence, time, sources } = read;
  return (
    <Card withBorder padding="sm" component="section" aria-label={TITLES[kind]}>
      <Group justify="space-between" gap="xs">
        <Text size="sm" fw={600}>{TITLES[kind]}</Text>
        <Group gap="xs">
          {confidence !== undefined && <Badge size="sm" variant="light" color={confidenceColor(confidence)} title="Confidence of the model">{formatPercent(confidence)}</Badge>}
          {time !== undefined && <Text size="xs" c="dimmed">{formatDate(time)}</Text>}
        </Group>
      </Group>
      <Content answer={read} />
      <Sources sources={sources} />
    </Card>
  );
}

function Content({ answer }: { readonly answer: Answer }) {
  switch (answer.kind) {
    case "answer":
      return (
        <>
          {answer.question !== "" && <Text size="xs" c="dimmed" className="foreign">{answer.question}</Text>}
          <Text size="sm" className="foreign">{answer.text}</Text>
        </>
      );
    case "summary":
      return (
        <>
          <Text size="sm" className="foreign">{answer.text}</Text>
          {answer.keyPoints.length > 0 && (
            <List size="sm" mt={4} aria-label="Key points">
              {answer.keyPoints.map((point, index) => <List.Item key={index}><span className="foreign">{point}</span></List.Item>)}
            </List>
          )}
        </>
      );
    case "calculation":
      return (
        <>
          {answer.formula !== "" && <Text size="sm" className="foreign">{answer.formula}</Text>}
          <Text size="sm" component="p" my={4}><Code className="foreign">{answer.expression}</Code>{" = "}<Text span fw={700} className="foreign">{answer.result}</Text></Text>
        </>
      );
  }
}

function Sources({ sources }: { readonly sources: readonly Source[] }) {
  if (sources.length === 0) return <Text size="xs" c="dimmed" mt={6}>The answer names no source.</Text>;
  return (
    <Stack gap={4} mt={6} role="list" aria-label="Sources">
      {sources.map(({ documentId, documentName, passages }) => (
        <div key={documentId} role="listitem">
          {passages.length === 0 && <DocumentLink documentId={documentId} />}
          {passages.map((passage, index) => (
            <div key={index}>
              <Anchor component={Link} href={sourceLink(passage)} size="sm"><bdi>{documentName || "a document"}</bdi>{passage.page !== undefined && `, p. ${passage.page}`}</Anchor>
              {passage.section !== "" && <Text span size="xs" c="dimmed" className="foreign">{` ${passage.section}`}</Text>}
              {passage.quote !== "" && <Text size="xs" c="dimmed" className="foreign" lineClamp={3}>{passage.quote}</Text>}
            </div>
          ))}
        </div>
      ))}
    </Stack>
  );
}
