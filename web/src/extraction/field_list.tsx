import { Fieldset, Group, ScrollArea, Stack, Table, Text, Tooltip } from "@mantine/core";
import { memo } from "react";
import type { v1 } from "folio-client";
import type { Evidence } from "./evidence.js";
import { FieldValue } from "./field_value.js";
import { columnsOf, type Field } from "./fields.js";
import type { Change } from "./queries.js";

interface FieldListProps {
  readonly fields: readonly Field[];
  readonly evidence: ReadonlyMap<string, Evidence>;
  readonly extraction: v1.Extraction;
  readonly canWrite: boolean;
  readonly isBusy: boolean;
  readonly onChange: (change: Change, after: () => void) => void;
}

/** The fields of an extraction: values as rows, objects as groups, and arrays of objects that contain only values as tables. */
export const FieldList = memo(function FieldList(props: FieldListProps) {
  return (
    <Stack gap={6}>
      {props.fields.map((field) => <FieldItem key={field.path} field={field} list={props} />)}
    </Stack>
  );
});

function FieldItem({ field, list }: { readonly field: Field; readonly list: FieldListProps }) {
  if (field.kind === "value") {
    return (
      <Group gap="sm" wrap="nowrap" align="flex-start">
        <Label field={field} />
        <Value field={field} list={list} />
      </Group>
    );
  }
  if (field.children.length === 0) {
    return <Group gap="sm"><Label field={field} /><Text size="sm" c="dimmed">{field.kind === "array" ? "no elements" : "no fields"}</Text></Group>;
  }
  const columns = columnsOf(field);
  return (
    <Fieldset legend={<Label field={field} />} p="xs">
      {columns === undefined ? <FieldList {...list} fields={field.children} /> : <FieldTable field={field} columns={columns} list={list} />}
    </Fieldset>
  );
}

function FieldTable({ field, columns, list }: { readonly field: Field; readonly columns: readonly string[]; readonly list: FieldListProps }) {
  return (
    <ScrollArea>
      <Table aria-label={field.label} verticalSpacing={4}>
        <Table.Thead>
          <Table.Tr><Table.Th>#</Table.Th>{columns.map((column) => <Table.Th key={column}><bdi>{column}</bdi></Table.Th>)}</Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {field.children.map((row) => (
            <Table.Tr key={row.path}>
              <Table.Td>{row.label}</Table.Td>
              {columns.map((column) => {
                const cell = row.children.find(({ label }) => label === column);
                return <Table.Td key={column} miw={160}>{cell !== undefined && <Value field={cell} list={list} />}</Table.Td>;
              })}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ScrollArea>
  );
}

function Value({ field, list }: { readonly field: Field; readonly list: FieldListProps }) {
  return (
    <FieldValue
      field={field}
      evidence={list.evidence.get(field.path)}
      extractionId={list.extraction.extractionId}
      canWrite={list.canWrite}
      isBusy={list.isBusy}
      onChange={list.onChange}
    />
  );
}

function Label({ field }: { readonly field: Field }) {
  const label = <Text size="sm" fw={500} miw={120} maw={180} className="foreign">{field.label}{field.isRequired ? "" : " (optional)"}</Text>;
  return field.description === "" ? label : <Tooltip label={field.description} multiline maw={320} events={{ hover: true, focus: true, touch: false }}>{label}</Tooltip>;
}
