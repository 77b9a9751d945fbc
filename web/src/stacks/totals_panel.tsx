import { Button, Checkbox, Fieldset, Group, MultiSelect, Select, Stack, Table, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { formatCount, formatNumber } from "../format.js";
import { EmptyState, QueryView } from "../states/states.js";
import { columnsFor, COUNT_ROWS, filterProblem, FUNCTIONS, GROUP_COLUMNS_MAX, headingOf, isComplete, keyText, requestOf, resultText, withFunction, type TotalsQuestion } from "./totals.js";

/** A question that was sent. `number`: distinguishes it from an earlier one with the same content, because the table may have changed. */
interface SentQuestion {
  readonly question: TotalsQuestion;
  readonly request: ReturnType<typeof requestOf>;
  readonly number: number;
}

/** Computes a number, a sum, an average or an extreme of a column over all rows of the table, by groups. */
export function TotalsPanel({ stack }: { readonly stack: v1.Stack }) {
  const { columns } = stack;
  const [question, setQuestion] = useState(COUNT_ROWS);
  const [sent, setSent] = useState<SentQuestion>();
  const accepted = columnsFor(question.name, columns);
  const filtered = columns.find(({ name }) => name === question.filterColumn);
  const problem = filterProblem(question, columns);
  return (
    <Fieldset legend="Totals" p="xs">
      <Stack gap="xs">
        <form onSubmit={(event) => { event.preventDefault(); setSent((before) => ({ question, request: requestOf(question, columns), number: (before?.number ?? 0) + 1 })); }}>
          <Group gap="xs" align="flex-end">
            <Select size="xs" label="Function" data={FUNCTIONS.map(({ name, label }) => ({ value: name, label }))} value={question.name} allowDeselect={false} onChange={(name) => setQuestion(withFunction(question, name ?? COUNT_ROWS.name, columns))} w={130} />
            <Select size="xs" label="Column" placeholder={question.name === COUNT_ROWS.name ? "All rows" : "Choose a column"} data={accepted} value={question.column || null} onChange={(column) => setQuestion({ ...question, column: column ?? "" })} nothingFoundMessage="No column" searchable clearable w={180} />
            <MultiSelect size="xs" label="Group by" data={columns.map(({ name }) => name)} value={[...question.groupBy]} onChange={(groupBy) => setQuestion({ ...question, groupBy })} maxValues={GROUP_COLUMNS_MAX} searchable miw={180} />
            <Select size="xs" label="Only rows with" placeholder="All rows" data={columns.map(({ name }) => name)} value={question.filterColumn || null} onChange={(column) => setQuestion({ ...question, filterColumn: column ?? "", filterText: "" })} nothingFoundMessage="No column" searchable clearable w={160} />
            {filtered !== undefined && <FilterValue column={filtered} text={question.filterText} problem={problem} onChange={(filterText) => setQuestion({ ...question, filterText })} />}
            <Checkbox size="xs" label="Approved values only" checked={question.approvedOnly} onChange={(event) => setQuestion({ ...question, approvedOnly: event.currentTarget.checked })} />
            <Button size="xs" type="submit" disabled={!isComplete(question) || problem !== ""}>Compute</Button>
          </Group>
        </form>
        {sent !== undefined && <Results key={sent.number} stackId={stack.stackId} sent={sent} />}
      </Stack>
    </Fieldset>
  );
}

interface FilterValueProps {
  readonly column: v1.StackColumn;
  readonly text: string;
  /** Empty: the text is valid. */
  readonly problem: string;
  readonly onChange: (text: string) => void;
}

/** The value of the rows that count. */
function FilterValue({ column: { type, enumValues }, text, problem, onChange }: FilterValueProps) {
  const shared = { size: "xs", label: "Value", placeholder: "No value", w: 150 } as const;
  if (type !== v1.StackColumnType.ENUM && type !== v1.StackColumnType.BOOLEAN) return <TextInput {...shared} value={text} onChange={(event) => onChange(event.currentTarget.value)} error={problem} />;
  const data = type === v1.StackColumnType.ENUM ? enumValues.map((value) => ({ value, label: value })) : [{ value: "true", label: "Yes" }, { value: "false", label: "No" }];
  return <Select {...shared} data={data} value={text || null} onChange={(value) => onChange(value ?? "")} clearable />;
}

function Results({ stackId, sent: { question, request, number } }: { readonly stackId: string; readonly sent: SentQuestion }) {
  const api = useApi();
  const answer = useQuery({
    queryKey: ["stack totals", stackId, request, number],
    queryFn: ({ signal }) => api.service(v1.StackService).askTable({ stackId, ...request }, { signal }),
    staleTime: Infinity,
    gcTime: 0,
  });
  return (
    <QueryView query={answer} empty={(data) => (data.groups.length === 0 ? <EmptyState title="No rows" text="The table has no rows to group." /> : undefined)}>
      {(data) => (
        <>
          <Text size="xs" c="dimmed" role="status">{`Computed from ${formatCount(data.rowCount, "row")}`}</Text>
          <Table.ScrollContainer minWidth={320}>
            <Table aria-label="Totals">
              <Table.Thead>
                <Table.Tr>
                  {question.groupBy.map((name) => <Table.Th key={name} className="foreign">{name}</Table.Th>)}
                  <Table.Th>Rows</Table.Th>
                  <Table.Th className="foreign">{headingOf(question)}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {data.groups.map(({ keyJson, rowCount, values }, index) => (
                  <Table.Tr key={index}>
                    {keyJson.map((key, at) => <Table.Td key={at} className="foreign">{keyText(key)}</Table.Td>)}
                    <Table.Td>{formatNumber(rowCount)}</Table.Td>
                    <Table.Td><Result result={values[0]} /></Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </>
      )}
    </QueryView>
  );
}

function Result({ result }: { readonly result: v1.TableAggregateValue | undefined }) {
  const skipped = result?.skippedRows ?? 0;
  return (
    <>
      <Text span size="sm" fw={500} className="foreign">{resultText(result)}</Text>
      {skipped > 0 && <Text span size="xs" c="dimmed">{` without ${formatCount(skipped, "row")} that ${skipped === 1 ? "has" : "have"} no value`}</Text>}
    </>
  );
}
