import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { EXPANSION_MAX } from "../dictionary/entries.js";
import { DocumentLink } from "../documents/document_link.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatPercent } from "../format.js";
import { useDecision } from "./queries.js";

/** A question about the meaning of a term: answer, or dismiss. The guess of a model is the first text of the answer. */
export function QuestionItem({ question }: { readonly question: v1.DictionaryQuestion }) {
  const api = useApi();
  const { dictionaryQuestionId, documentId, term, contexts, guess, confidence, etag } = question;
  const [expansion, setExpansion] = useState(guess);
  const answer = useDecision(() => api.service(v1.DictionaryService).answerDictionaryQuestion({ dictionaryQuestionId, expansion: expansion.trim(), etag }));
  const dismiss = useDecision(() => api.service(v1.DictionaryService).dismissDictionaryQuestion({ dictionaryQuestionId, etag }));
  const error = answer.error ?? dismiss.error;
  const isBusy = answer.isPending || dismiss.isPending;
  return (
    <form onSubmit={(event) => { event.preventDefault(); answer.mutate(undefined); }}>
      <Stack gap="xs">
        <Text size="sm">What does <b><bdi>{term}</bdi></b> mean in <DocumentLink documentId={documentId} />?</Text>
        {contexts.map((context, index) => <Text key={index} size="xs" c="dimmed" className="foreign">{context}</Text>)}
        <Group gap="xs" align="flex-end">
          <TextInput size="xs" flex={1} label="Meaning" {...(guess !== "" && { description: `A model inferred “${guess}” (${formatPercent(confidence)}).` })} value={expansion} onChange={(event) => setExpansion(event.currentTarget.value)} maxLength={EXPANSION_MAX} dir="auto" />
          <Button size="xs" color="green" type="submit" data-decision="approve" loading={answer.isPending} disabled={isBusy || expansion.trim() === ""}>Answer</Button>
          <Button size="xs" variant="default" data-decision="reject" loading={dismiss.isPending} disabled={isBusy} onClick={() => dismiss.mutate(undefined)}>Dismiss</Button>
        </Group>
        {error !== null && <ErrorNotice error={error} />}
      </Stack>
    </form>
  );
}
