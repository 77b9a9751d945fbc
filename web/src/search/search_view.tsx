import { Alert, Anchor, Badge, Button, Card, Group, Mark, MultiSelect, Stack, Text, TextInput, Title } from "@mantine/core";
import { useMemo, useState, type FormEvent } from "react";
import { Link, useSearchParams } from "wouter";
import { useTags } from "../documents/queries.js";
import { EmptyState, MoreButton, QueryView } from "../states/states.js";
import { isLong, partsOf, passageLink, QUERY_MAX, type Passage, type SearchAnswer } from "./passages.js";
import { LIMIT_FIRST, LIMIT_MAX, useSearch } from "./retrieval.js";
import { searchOf, searchParametersOf } from "./search_parameters.js";

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
  const start = (changes: Partial<typeof search>) => {
    setLimit(LIMIT_FIRST);
    setParameters(searchParametersOf({ ...search, ...changes }));
  };
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    start({ query: text.trim() });
  };
  return (
    <Stack gap="sm">
      <Title order={1} size="h3">Search</Title>
      <form onSubmit={onSubmit} role="search" aria-label="All documents">
        <Group gap="sm" align="flex-end">
          <TextInput aria-label="Words or a question" placeholder="Words or a question" type="search" maxLength={QUERY_MAX} value={text} onChange={(event) => setText(event.currentTarget.value)} flex="1 1 260px" dir="auto" autoFocus />
          <MultiSelect aria-label="Tags" placeholder={search.tagIds.length === 0 ? "Any tag" : ""} searchable clearable data={(tags.data ?? []).map(({ tagId, name }) => ({ value: tagId, label: name }))} value={search.tagIds.filter((id) => tags.data?.some(({ tagId }) => tagId === id) === true)} onChange={(tagIds) => start({ tagIds })} w={220} />
          <Button type="submit" disabled={text.trim() === ""}>Search</Button>
        </Group>
      </form>
      {search.query === "" ? (
        <EmptyState title="Find passages in all documents" text="Enter words, a number or a question. The results are the passages that contain the words or have a similar meaning." />
      ) : (
        <QueryView query={answer} empty={(data) => (data.passages.length === 0 ? <NothingFound answer={data} /> : undefined)}>
          {(data) => (
            <>
              <Gaps gaps={data.gaps} />
              <Text size="sm" c="dimmed" role="status">{`${data.passages.length} passages`}</Text>
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
        {parts.map((part, index) => (part.isMatch ? <Mark key={index}>{part.text}</Mark> : <span key={index}>{part.text}</span>))}
      </Text>
      {isLong(text) && <Group><Button size="compact-xs" variant="subtle" color="gray" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>{isWhole ? "Less" : "Whole passage"}</Button></Group>}
    </Card>
  );
}

function Gaps({ gaps }: { readonly gaps: readonly string[] }) {
  if (gaps.length === 0) return null;
  return (
    <Alert color="yellow" title="The search was not complete" role="status" py="xs">
      {gaps.map((gap) => <Text key={gap} size="sm" className="foreign">{gap}</Text>)}
    </Alert>
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
