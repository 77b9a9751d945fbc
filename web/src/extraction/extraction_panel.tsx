import { Alert, Badge, Button, Group, Select, Stack, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useSearchParams } from "wouter";
import { useFocus } from "../document/focus.js";
import { extractionsKey } from "../document/queries.js";
import { BUILT_IN, PromptSelect } from "../documents/prompt_select.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { usePermits } from "../session/session_context.js";
import { EmptyState, LoadingState, QueryView } from "../states/states.js";
import { citationOf, evidenceOf, type Evidence } from "./evidence.js";
import { ExportMenu } from "./export_menu.js";
import { FieldList } from "./field_list.js";
import { dataOf, fieldsOf, leaves } from "./fields.js";
import { useChange, useExtraction, useExtractions, useRun, useSchema, type Change } from "./queries.js";

const ID = /^[\w-]{1,100}$/;

/**
 * The extractions of a document: their fields, decisions, history and export. Changes of an agent appear while it writes. The address
 * contains the chosen extraction, which may be older than the listed ones.
 */
export function ExtractionPanel({ document }: { readonly document: v1.Document }) {
  const extractions = useExtractions(document.documentId);
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.EXTRACTIONS);
  const [parameters, setParameters] = useSearchParams();
  const linked = parameters.get("extraction") ?? "";
  const chosen = ID.test(linked) ? linked : "";
  const isUnlisted = chosen !== "" && extractions.data?.some(({ extractionId }) => extractionId === chosen) === false;
  const older = useExtraction(chosen, isUnlisted);
  const choose = (id: string) => setParameters((before) => { before.set("extraction", id); before.delete("field"); return before; }, { replace: true });
  return (
    <Stack gap="sm">
      {canWrite && <RunBar document={document} />}
      <QueryView
        query={extractions}
        empty={(all) => (all.length === 0 ? <EmptyState title="No extraction yet" text="Run a prompt, or let the agent create one." /> : undefined)}
      >
        {(listed) => {
          if (isUnlisted && older.isLoading) return <LoadingState />;
          // The id of an address may be that of another document.
          const found = (isUnlisted ? older.data : undefined) ?? undefined;
          const all = found !== undefined && found.documentId === document.documentId ? [...listed, found] : listed;
          const current = all.find(({ extractionId }) => extractionId === chosen) ?? all[0];
          if (current === undefined) return null;
          const options = all.map(({ extractionId, createTime, model }) => ({ value: extractionId, label: `${formatTime(createTime)} · ${model}` }));
          return (
            <>
              <Group justify="space-between" align="flex-end">
                <Select size="xs" aria-label="Extraction" data={options} value={current.extractionId} onChange={(id) => choose(id ?? "")} allowDeselect={false} flex={1} />
                <ExportMenu selection={{ documentIds: [document.documentId] }} fileName={document.name} />
              </Group>
              <ExtractionFields key={current.extractionId} extraction={current} canWrite={canWrite} />
            </>
          );
        }}
      </QueryView>
    </Stack>
  );
}

/** Shows the citation of the field that the address names, once for each address. */
function useLinkedField(evidence: ReadonlyMap<string, Evidence>): void {
  const { setHighlight, goTo } = useFocus();
  const [parameters] = useSearchParams();
  const field = parameters.get("field") ?? "";
  const citation = useMemo(() => (field === "" ? undefined : citationOf(evidence, field)), [evidence, field]);
  const shown = useRef("");
  useEffect(() => {
    if (citation === undefined || shown.current === field) return;
    shown.current = field;
    setHighlight({ page: citation.page, boxes: citation.boxes });
    goTo(citation.page);
  }, [citation, field, setHighlight, goTo]);
}

function ExtractionFields({ extraction, canWrite }: { readonly extraction: v1.Extraction; readonly canWrite: boolean }) {
  const schema = useSchema(extraction.schemaRevid);
  const change = useChange(extraction);
  const data = useMemo(() => dataOf(extraction), [extraction]);
  const fields = useMemo(() => fieldsOf(data, schema.data ?? undefined), [data, schema.data]);
  const values = useMemo(() => leaves(fields), [fields]);
  const evidence = useMemo(() => evidenceOf(extraction, values), [extraction, values]);
  const { mutate } = change;
  const queries = useQueryClient();
  useLinkedField(evidence);
  const reload = () => {
    change.reset();
    void queries.invalidateQueries({ queryKey: extractionsKey(extraction.documentId) });
  };
  const onChange = useCallback((made: Change, after: () => void) => mutate(made, { onSuccess: after }), [mutate]);
  const isRunning = extraction.state === v1.ExtractionState.IN_PROGRESS;
  const approved = extraction.reviews.filter(({ decision }) => decision === v1.FieldDecision.APPROVED).length;
  return (
    <Stack gap="sm">
      <Group gap="xs">
        {isRunning && <Badge color="blue" role="status">The agent writes</Badge>}
        {extraction.verified && <Badge color="green">Verified</Badge>}
        {extraction.documentType !== undefined && <Badge variant="outline" tt="none"><bdi>{extraction.documentType.name}</bdi></Badge>}
        <Text size="xs" c="dimmed">{`${approved} of ${values.length} values approved`}</Text>
        {canWrite && !isRunning && (
          <Button size="compact-xs" variant="subtle" disabled={change.isPending} onClick={() => mutate({ path: "", decision: v1.FieldDecision.APPROVED })}>Approve all values</Button>
        )}
      </Group>
      {extraction.failure !== "" && <Alert color="yellow" title="The agent did not complete this extraction"><span className="foreign">{extraction.failure}</span></Alert>}
      {extraction.checks.filter(({ outcome }) => outcome === v1.CheckOutcome.FAILED).map(({ check, left, right }) => (
        <Alert key={check} color="red" title="A check failed" py="xs"><code className="foreign">{check}</code>{` (${left ?? "?"} and ${right ?? "?"})`}</Alert>
      ))}
      {change.error !== null && <ErrorNotice error={change.error} actions={{ reload }} onClose={change.reset} />}
      {data === undefined ? (
        <EmptyState title="The data is not valid JSON" />
      ) : (
        <FieldList fields={fields} evidence={evidence} extraction={extraction} canWrite={canWrite} isBusy={change.isPending} onChange={onChange} />
      )}
    </Stack>
  );
}

function RunBar({ document }: { readonly document: v1.Document }) {
  const run = useRun(document.documentId);
  const [promptId, setPromptId] = useState(BUILT_IN);
  const isReady = document.state === v1.DocumentState.READY;
  return (
    <>
      <Group gap="xs" align="flex-end">
        <PromptSelect isCompact value={promptId} onChange={setPromptId} />
        <Button size="xs" onClick={() => run.mutate(promptId)} loading={run.isPending} disabled={!isReady}>Extract</Button>
      </Group>
      {run.error !== null && <ErrorNotice error={run.error} actions={{ retry: () => run.mutate(promptId) }} onClose={run.reset} />}
    </>
  );
}
