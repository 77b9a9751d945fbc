import { Anchor, Button, Modal, Text } from "@mantine/core";
import { v1 } from "folio-client";
import { lazy, Suspense, useState } from "react";
import { Link, useLocation } from "wouter";
import { useHistoryState } from "wouter/use-browser-location";
import { useApi } from "../api/api.js";
import { RuleText } from "../collections/rule_fields.js";
import { nameFilter } from "../documents/filters.js";
import { formatNumber, formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { usePermits } from "../session/session_context.js";
import { LoadingState } from "../states/states.js";
import { STACKS_KEY } from "./queries.js";

const StackForm = lazy(async () => ({ default: (await import("./stack_form.js")).StackForm }));

/** The state of a link that creates a stack from selected documents. */
export interface NewStackState {
  readonly stackDocuments: readonly (readonly [documentId: string, name: string])[];
}

/** Returns the documents of a state of the browser's history. Undefined: the state is another one. */
export function documentsOf(state: unknown): ReadonlyMap<string, string> | undefined {
  const { stackDocuments } = (typeof state === "object" && state !== null ? state : {}) as Partial<NewStackState>;
  return Array.isArray(stackDocuments) ? new Map(stackDocuments as NewStackState["stackDocuments"]) : undefined;
}

/** The stacks: sets of documents, each with a table. */
export function StacksView() {
  const api = useApi();
  const [, navigate] = useLocation();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.EXTRACTIONS);
  const [text, setText] = useState("");
  const documents = documentsOf(useHistoryState<unknown>());
  const [isCreating, setCreating] = useState(documents !== undefined);
  const filter = nameFilter(text);
  const close = () => {
    setCreating(false);
    // A reload of the page creates no stack from documents that were selected before.
    if (documents !== undefined) navigate("/stacks", { replace: true });
  };
  return (
    <>
      <ListView<v1.Stack>
        title="Stacks"
        queryKey={[...STACKS_KEY, { filter }]}
        load={async (pageToken, signal) => {
          const { stacks, nextPageToken } = await api.service(v1.StackService).listStacks({ filter, pageToken, orderBy: "name" }, { signal });
          return { items: stacks, nextPageToken };
        }}
        keyOf={({ stackId }) => stackId}
        emptyText="A stack is a table over many documents: an agent proposes the columns, a job fills a row for each document, and people review the cells."
        onSearch={setText}
        columns={[
          { label: "Name", cell: ({ stackId, name, description }) => <><Anchor component={Link} href={`/stacks/${stackId}`} size="sm"><bdi>{name}</bdi></Anchor><Text size="xs" c="dimmed" lineClamp={2}>{description}</Text></> },
          { label: "Members", cell: ({ rule, documentCount }) => (rule === undefined ? `${formatNumber(documentCount)} documents` : <RuleText tagIds={rule.tagIds} metadata={rule.metadata} />) },
          { label: "Columns", cell: ({ columns }) => formatNumber(columns.length) },
          { label: "Changed", cell: ({ updateTime }) => formatTime(updateTime) },
        ]}
      >
        {canWrite && <Button size="xs" onClick={() => setCreating(true)}>New stack</Button>}
      </ListView>
      <Modal opened={isCreating} onClose={close} title="New stack" size="lg">
        {isCreating && <Suspense fallback={<LoadingState />}><StackForm {...(documents !== undefined && { documents })} onDone={(stack) => { close(); if (stack !== undefined) navigate(`/stacks/${stack.stackId}`); }} /></Suspense>}
      </Modal>
    </>
  );
}
