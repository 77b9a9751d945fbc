import { Button, Checkbox, Group, NumberInput, SegmentedControl, Select, Stack, Switch, Text, Textarea, TextInput } from "@mantine/core";
import { v1 } from "folio-client";
import { useState } from "react";
import { useModels } from "../agent/queries.js";
import { useApi } from "../api/api.js";
import { draftOf, metadataOf, problemOf, type RuleDraft } from "../collections/rule.js";
import { RuleFields } from "../collections/rule_fields.js";
import { DocumentMultiSelect } from "../documents/document_multi_select.js";
import { budgetOf } from "../documents/uploads.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { useReload, useStackChange } from "./queries.js";

const NAME_MAX = 200;
const DESCRIPTION_MAX = 2_000;
const DOCUMENTS_MAX = 10_000;
const PERCENT = 100;

/** The names of documents by their ids. */
type Documents = ReadonlyMap<string, string>;
const NO_DOCUMENTS: Documents = new Map();

/** The settings as they are edited. */
interface Settings {
  readonly name: string;
  readonly description: string;
  readonly isRule: boolean;
  readonly rule: RuleDraft;
  /** Documents of a new stack, or those to add. */
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** Empty: the default of the organization. */
  readonly model: string;
  readonly isReviewed: boolean;
  /** Percent. */
  readonly minConfidence: number;
  readonly requiresCitation: boolean;
  readonly isAutomatic: boolean;
  /** Empty: no budget. */
  readonly budget: string;
}

function settingsOf(stack: v1.Stack | undefined, documents: Documents): Settings {
  const { name = "", description = "", rule, model = "", reviewRule, autoFill } = stack ?? {};
  return {
    name,
    description,
    isRule: rule !== undefined,
    rule: draftOf(rule ?? { tagIds: [], metadata: {} }),
    added: [...documents.keys()],
    removed: [],
    model,
    isReviewed: reviewRule !== undefined,
    minConfidence: Math.round((reviewRule?.minConfidence ?? 0.9) * PERCENT),
    requiresCitation: reviewRule?.requiresCitation ?? true,
    isAutomatic: autoFill !== undefined,
    budget: autoFill?.creditBudget === undefined ? "" : String(autoFill.creditBudget),
  };
}

/** Returns the stack of a request, without its documents. */
function valuesOf({ name, description, isRule, rule, model, isReviewed, minConfidence, requiresCitation, isAutomatic, budget }: Settings) {
  const creditBudget = budgetOf(budget.trim());
  return {
    name: name.trim(),
    description,
    model,
    ...(isRule && { rule: { tagIds: [...rule.tagIds], metadata: metadataOf(rule) } }),
    ...(isReviewed && { reviewRule: { minConfidence: minConfidence / PERCENT, requiresCitation } }),
    ...(isAutomatic && { autoFill: { ...(creditBudget !== undefined && { creditBudget }) } }),
  };
}

interface StackFormProps {
  /** Undefined: a new one. */
  readonly stack?: v1.Stack;
  /** The first documents of a new stack. */
  readonly documents?: Documents;
  readonly onDone: (stack: v1.Stack | undefined) => void;
}

/** Creates a stack, or changes its settings and members. */
export function StackForm({ stack, documents = NO_DOCUMENTS, onDone }: StackFormProps) {
  const api = useApi();
  const models = useModels();
  const { stackId = "", etag = "", documentCount = 0 } = stack ?? {};
  const reload = useReload(stackId);
  const [settings, setSettings] = useState(() => settingsOf(stack, documents));
  const change = (changes: Partial<Settings>) => setSettings((before) => ({ ...before, ...changes }));
  const { name, description, isRule, rule, added, removed, model, isReviewed, minConfidence, requiresCitation, isAutomatic, budget } = settings;
  const isNew = stack === undefined;
  const isBudgetInvalid = isAutomatic && budget.trim() !== "" && budgetOf(budget.trim()) === undefined;
  const problem = isRule ? problemOf(rule) : isNew && added.length === 0 ? "Choose the documents of the stack." : "";
  const save = useStackChange(stackId, async () => {
    const values = valuesOf(settings);
    if (isNew) return api.service(v1.StackService).createStack({ stack: { ...values, documentIds: isRule ? [] : [...added] } });
    const paths = ["name", "description", "model", "review_rule", "auto_fill", ...(isRule ? ["rule"] : [])];
    return api.service(v1.StackService).updateStack({ stack: { ...values, stackId, etag }, updateMask: { paths }, addDocumentIds: isRule ? [] : [...added], removeDocumentIds: isRule ? [] : [...removed] });
  });
  return (
    <form onSubmit={(event) => { event.preventDefault(); save.mutate(undefined, { onSuccess: (changed) => onDone(changed.stack) }); }}>
      <Stack gap="sm">
        <TextInput label="Name" value={name} onChange={(event) => change({ name: event.currentTarget.value })} maxLength={NAME_MAX} required data-autofocus />
        <Textarea label="Description" description="Agents read it" value={description} onChange={(event) => change({ description: event.currentTarget.value })} maxLength={DESCRIPTION_MAX} autosize />
        {isNew && <SegmentedControl aria-label="Members" data={[{ value: "list", label: "Named documents" }, { value: "rule", label: "A rule, also for later documents" }]} value={isRule ? "rule" : "list"} onChange={(kind) => change({ isRule: kind === "rule" })} />}
        {isRule && <RuleFields rule={rule} onChange={(rule) => change({ rule })} />}
        {!isRule && <DocumentMultiSelect label={isNew ? "Documents" : "Documents to add"} {...(!isNew && { description: `The stack has ${documentCount} documents.` })} value={added} names={documents} max={DOCUMENTS_MAX} onChange={(added) => change({ added })} />}
        {!isRule && !isNew && <DocumentMultiSelect label="Documents to remove" description="Their rows are kept for the case that they return." value={removed} max={DOCUMENTS_MAX} onChange={(removed) => change({ removed })} />}
        <Select label="Model of the agents that fill rows" placeholder="Default model" data={models.data?.models.map(({ name }) => name) ?? []} value={model || null} onChange={(model) => change({ model: model ?? "" })} clearable searchable />
        <Switch label="Values of agents wait for a decision, unless a rule approves them" checked={isReviewed} onChange={(event) => change({ isReviewed: event.currentTarget.checked })} />
        {isReviewed && (
          <Group gap="sm" align="flex-end">
            <NumberInput label="Minimum confidence of an approved value, in percent" value={minConfidence} onChange={(value) => change({ minConfidence: Number(value) || 0 })} min={0} max={PERCENT} allowDecimal={false} allowNegative={false} clampBehavior="strict" />
            <Checkbox label="An approved value must have a citation" checked={requiresCitation} onChange={(event) => change({ requiresCitation: event.currentTarget.checked })} />
          </Group>
        )}
        <Switch label="Rows of new members and new columns are filled automatically" checked={isAutomatic} onChange={(event) => change({ isAutomatic: event.currentTarget.checked })} />
        {isAutomatic && <TextInput label="Credit budget of each automatic job" description="Empty: no budget" inputMode="numeric" maxLength={13} value={budget} onChange={(event) => change({ budget: event.currentTarget.value })} error={isBudgetInvalid && "Enter 1 to 1,000,000,000,000 credits."} />}
        {problem !== "" && <Text size="xs" c="dimmed" role="status">{problem}</Text>}
        {save.error !== null && <ErrorNotice error={save.error} actions={{ reload: () => { reload(); onDone(undefined); } }} />}
        <Group justify="flex-end"><Button type="submit" loading={save.isPending} disabled={name.trim() === "" || problem !== "" || isBudgetInvalid}>{isNew ? "Create the stack" : "Save"}</Button></Group>
      </Stack>
    </form>
  );
}
