import { Button, Group, MultiSelect, Select, Stack, Switch, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { v1 } from "folio-client";
import { lazy, Suspense, useCallback, useMemo, useRef, useState } from "react";
import { useSearchParams } from "wouter";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatNumber } from "../format.js";
import { useNextPage } from "../lists/use_next_page.js";
import { useOrganization } from "../session/organization.js";
import { usePermits } from "../session/session_context.js";
import { EmptyState, QueryView } from "../states/states.js";
import { DocumentTable } from "./document_table.js";
import { DropArea, UploadButton } from "./drop_area.js";
import { filtersOf, isUnfiltered, ORDERS, parametersOf, STATES, TEXT_MAX, type DocumentFilters } from "./filters.js";
import { useDocuments, useTags } from "./queries.js";
import { budgetOf, useUploads } from "./uploads.js";

const UploadList = lazy(async () => ({ default: (await import("./upload_list.js")).UploadList }));
const BulkActions = lazy(async () => ({ default: (await import("./bulk_actions.js")).BulkActions }));

const SEARCH_DELAY_MS = 250;
/** The server counts lists without a grid exactly up to this number. */
const COUNTED_MAX = 1_024;
const ORDER_LABELS = ["Newest first", "Oldest first", "Name A–Z", "Name Z–A"];
const STATE_LABELS = { uploaded: "Uploaded", processing: "Reading", ready: "Ready", no_text: "No text", failed: "Failed" };

/** The documents of the organization: list, filters, upload and bulk actions. */
export function DocumentsView() {
  const [parameters, setParameters] = useSearchParams();
  const filters = useMemo(() => filtersOf(parameters), [parameters]);
  const setFilters = (changes: Partial<DocumentFilters>) =>
    setParameters(parametersOf({ ...filters, ...changes }), { replace: true });
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.DOCUMENTS);
  const documents = useDocuments(filters);
  const tags = useTags();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  // Undefined: the visitor chose nothing, and the organization decides.
  const [autoCreate, setAutoCreate] = useState<boolean>();
  const [budget, setBudget] = useState("");
  const organization = useOrganization();
  // The agent of an upload writes definitions and an extraction, which a restricted token must cover.
  const mayCreate = usePermits(v1.Role.MEMBER, v1.Scope.DEFINITIONS, v1.Scope.EXTRACTIONS);
  const creates = mayCreate && (autoCreate ?? organization.data?.autoCreate ?? false);
  const hasBudget = creates && budget !== "";
  const uploads = useUploads(filters.tagIds, mayCreate ? autoCreate : false, hasBudget ? budgetOf(budget) : undefined);
  // An upload never ignores a budget that the visitor has entered.
  const isBudgetInvalid = hasBudget && budgetOf(budget) === undefined;
  const search = useDebouncedCallback((text: string) => setFilters({ text }), SEARCH_DELAY_MS);
  const searchInput = useRef<HTMLInputElement>(null);

  const loaded = useMemo(() => documents.data?.pages.flatMap(({ documents }) => documents) ?? [], [documents.data]);
  const tagsById = useMemo(() => new Map((tags.data ?? []).map((tag) => [tag.tagId, tag])), [tags.data]);
  const { hasNextPage, isFetchNextPageError, fetchNextPage } = documents;
  const loadMore = useNextPage(documents);
  const select = useCallback((documentIds: readonly string[], isSelected: boolean) => {
    setSelected((before) => {
      const after = new Set(before);
      for (const id of documentIds) isSelected ? after.add(id) : after.delete(id);
      return after;
    });
  }, []);

  const first = documents.data?.pages[0];
  const total = first?.totalSize ?? 0;
  const selectedDocuments = loaded.filter(({ documentId }) => selected.has(documentId));
  const isUncertain = first !== undefined && (first.totalSizeEstimated || total > COUNTED_MAX);

  return (
    <DropArea onFiles={uploads.add} disabled={!canWrite || isBudgetInvalid}>
      <Stack gap="sm">
        <Group justify="space-between">
          <Title order={1} size="h3">Documents</Title>
          {canWrite && (
            <Group gap="sm">
              {mayCreate && <Switch size="xs" label="Automatic creation" title="An agent proposes a schema, a prompt and an extraction for each uploaded document" checked={creates} onChange={(event) => setAutoCreate(event.currentTarget.checked)} />}
              {creates && <TextInput size="xs" inputMode="numeric" aria-label="Credit budget of each agent" placeholder="Credits per document" title="Credits that the agent of each uploaded document may use. Empty: the budget of the server." maxLength={13} value={budget} onChange={(event) => setBudget(event.currentTarget.value.trim())} error={isBudgetInvalid} w={170} />}
              <UploadButton onFiles={uploads.add} disabled={isBudgetInvalid} />
            </Group>
          )}
        </Group>
        <Group gap="sm" align="flex-end" role="search">
          <TextInput ref={searchInput} aria-label="Search by name" placeholder="Search by name" defaultValue={filters.text} maxLength={TEXT_MAX} onChange={(event) => search(event.currentTarget.value)} flex="1 1 200px" type="search" />
          <Select aria-label="State" placeholder="Any state" clearable data={STATES.map((value) => ({ value, label: STATE_LABELS[value] }))} value={filters.state || null} onChange={(state) => setFilters({ state: STATES.find((known) => known === state) ?? "" })} w={140} />
          <MultiSelect aria-label="Tags" placeholder={filters.tagIds.length === 0 ? "Any tag" : ""} searchable clearable data={(tags.data ?? []).map(({ tagId, name }) => ({ value: tagId, label: name }))} value={filters.tagIds.filter((id) => tagsById.has(id))} onChange={(tagIds) => setFilters({ tagIds })} w={220} />
          <Select aria-label="Order" data={ORDERS.map((value, index) => ({ value, label: ORDER_LABELS[index] ?? value }))} value={filters.orderBy} onChange={(orderBy) => setFilters({ orderBy: orderBy ?? ORDERS[0] })} allowDeselect={false} w={150} />
        </Group>
        {uploads.uploads.length > 0 && (
          <Suspense><UploadList uploads={uploads.uploads} refused={uploads.refused} onRetry={uploads.retry} onClear={uploads.clear} /></Suspense>
        )}
        <QueryView
          query={documents}
          empty={() => (loaded.length > 0 || hasNextPage ? undefined : <NoDocuments filters={filters} canWrite={canWrite} onReset={() => setParameters(new URLSearchParams())} />)}
        >
          {() => (
            <>
              <Group justify="space-between" mih={30}>
                <Text size="sm" c="dimmed" role="status">{`${isUncertain ? "about " : ""}${formatNumber(total)} documents`}</Text>
                {canWrite && selectedDocuments.length > 0 && (
                  <Suspense><BulkActions documents={selectedDocuments} tags={tags.data ?? []} onDone={() => setSelected(new Set())} /></Suspense>
                )}
              </Group>
              <DocumentTable documents={loaded} total={total} tags={tagsById} selected={selected} onSelect={select} onEnd={loadMore} />
              {isFetchNextPageError && <ErrorNotice error={documents.error} actions={{ retry: () => void fetchNextPage() }} />}
            </>
          )}
        </QueryView>
      </Stack>
    </DropArea>
  );
}

interface NoDocumentsProps {
  readonly filters: DocumentFilters;
  readonly canWrite: boolean;
  readonly onReset: () => void;
}

function NoDocuments({ filters, canWrite, onReset }: NoDocumentsProps) {
  if (!isUnfiltered(filters)) {
    return (
      <EmptyState title="No document matches" text="Change the search or the filters.">
        <Button variant="default" onClick={onReset}>Show all documents</Button>
      </EmptyState>
    );
  }
  return <EmptyState title="No documents yet" text={canWrite ? "Drop files here, or use the button Upload. Folio reads PDF, images, office documents and text." : "A member of your organization can upload documents."} />;
}
