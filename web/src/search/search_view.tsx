import { Anchor, Badge, Button, Card, Group, Mark, MultiSelect, Stack, Text, TextInput, Title } from "@mantine/core";
import { v1 } from "folio-client";
import { lazy, Suspense, useMemo, useState, type FormEvent } from "react";
import { Link, useSearchParams } from "wouter";
import { CollectionSelect } from "../assistant/scope_select.js";
import { useTags } from "../documents/queries.js";
import { formatCount } from "../format.js";
import { usePermits } from "../session/session_context.js";
import { EmptyState, LoadingState, MoreButton, QueryView } from "../states/states.js";
import { Gaps } from "./gaps.js";
import { isLong, partsOf, passageLink, QUERY_MAX, withoutEmptyCells, type Passage, type SearchAnswer } from "./passages.js";
import { LIMIT_FIRST, LIMIT_MAX, useAsk, useSearch } from "./retrieval.js";
import { searchOf, searchParametersOf } from "./search_parameters.js";

const ModelAnswerCard = lazy(async () => ({ default: (await import("./model_answer_card.js")).ModelAnswerCard }));

/** Searches the passages of all documents by words and by meaning. The address contains the query and its filter. */
export function SearchView() {
  const [parameters, setParameters] = useSearchParams();
  const search = useMemo(() => searchOf(parameters), [parameters]);
  const tags = useTags();
  const [text, setText] = useState(search.query);
  const [limit, setLimit] = useState(LIMIT_FIRST);
  // The buttons of the browser changed the address.
  const [address, setAddress] = useState(search.query);
  if (address !== search.query) {
    setAddress(search.query);
    setText(search.query);
  }
  const answer = useSearch(search, limit);
  const mayAsk = usePermits(v1.Role.MEMBER, v1.Scope.DOCUMENTS);
  const mayFilter = usePermits(v1.Role.VIEWER, v1.Scope.DEFINITIONS);
  const question = useAsk();
  const start = (changes: Partial<typeof search>) => {
    setLimit(LIMIT_FIRST);
    setParameters(searchParametersOf({ ...search, ...changes }));
  };
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    start({ query: text.trim() });
  };
  const ask = () => {
    const wanted = { ...search, query: text.trim() };
    if (wanted.query !== search.query) start({ query: wanted.query });
    question.mutate(wanted);
  };
  const isCurrent = question.variables !== undefined && searchParametersOf(question.variables).toString() === searchParametersOf(search).toString();
  return (
    <Stack gap="sm">
      <Title order={1} size="h3">Search</Title>
      <form onSubmit={onSubmit} role="search" aria-label="All documents">
        <Group gap="sm" align="flex-end">
          <TextInput aria-label="Words or a question" placeholder="Words or a question" type="search" maxLength={QUERY_MAX} value={text} onChange={(event) => setText(event.currentTarget.value)} flex="1 1 260px" dir="auto" autoFocus />
          <MultiSelect aria-label="Tags" placeholder={search.tagIds.length === 0 ? "Any tag" : ""} searchable clearable data={(tags.data ?? []).map(({ tagId, name }) => ({ value: tagId, label: name }))} value={search.tagIds.filter((id) => tags.data?.some(({ tagId }) => tagId === id) === true)} onChange={(tagIds) => start({ tagIds })} w={220} />
          {mayFilter && <CollectionSelect aria-label="Collection" value={search.collectionId} onChange={(collectionId) => start({ collectionId })} clearable />}
          <Button type="submit" disabled={text.trim() === ""}>Search</Button>
          {mayAsk && <Button variant="default" loading={question.isPending} disabled={text.trim() === ""} title="A model answers from the passages that match best. The answer costs credit." onClick={ask}>Ask</Button>}
        </Group>
      </form>
      {isCurrent && (
        <Suspense fallback={<LoadingState />}>
          <ModelAnswerCard answer={question.data} error={question.error} onRetry={ask} onClose={question.reset} />
        </Suspense>
      )}
      {search.query === "" ? (
        <EmptyState title="Find passages in all documents" text="Enter words, a number or a question. The results are the passages that contain the words or have a similar meaning." />
      ) : (
        <QueryView query={answer} empty={(data) => (data.passages.length === 0 ? <NothingFound answer={data} /> : undefined)}>
          {(data) => (
            <>
              <Gaps gaps={data.gaps} />
              <Text size="sm" c="dimmed" role="status">{formatCount(data.passages.length, "passage")}</Text>
              <Stack gap="xs" role="list" aria-label="Passages" aria-busy={answer.isPlaceholderData}>
                {data.passages.map((passage) => <PassageCard key={passage.key} passage={passage} />)}
              </Stack>
              {data.passages.length === limit && limit < LIMIT_MAX && <MoreButton onClick={() => setLimit(LIMIT_MAX)} loading={answer.isFetching} />}
            </>
          )}
        </QueryView>
      )}
    </Stack>
  );
}

function PassageCard({ passage }: { readonly passage: Passage }) {
  const { documentName, page, sectionTitles, text, matches, ranks } = passage;
  const [isWhole, setWhole] = useState(false);
  const parts = useMemo(() => partsOf(text, matches, isWhole), [text, matches, isWhole]);
  return (
    <Card withBorder padding="sm" role="listitem">
      <Group justify="space-between" wrap="nowrap" gap="xs" align="flex-start">
        <Stack gap={0}>
          <Anchor component={Link} href={passageLink(passage)} size="sm" fw={500}><bdi>{documentName}</bdi>{`, p. ${page}`}</Anchor>
          {sectionTitles.length > 0 && <Text size="xs" c="dimmed" className="foreign">{sectionTitles.join(" › ")}</Text>}
        </Stack>
        <Group gap={4} wrap="nowrap">
          {ranks.map((rank) => <Badge key={rank} size="xs" variant="outline" color="gray" tt="none" title="Position in this part of the search">{rank}</Badge>)}
        </Group>
      </Group>
      <Text size="sm" className="foreign" mt={4}>
        {parts.map((part, index) => (part.isMatch ? <Mark key={index}>{part.text}</Mark> : <span key={index}>{withoutEmptyCells(part.text)}</span>))}
      </Text>
      {isLong(text) && <Group><Button size="compact-xs" variant="subtle" color="gray" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>{isWhole ? "Less" : "Whole passage"}</Button></Group>}
    </Card>
  );
}

function NothingFound({ answer: { gaps } }: { readonly answer: SearchAnswer }) {
  return (
    <>
      <Gaps gaps={gaps} />
      <EmptyState title="Nothing found" text="No passage contains the words, or has a similar meaning. Change the words or the tags." />
    </>
  );
}
