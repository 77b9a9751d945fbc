import { Table } from "@mantine/core";
import { columnsOf } from "./proposed_columns.js";

/** The columns that a call of `define_columns` proposes. Arguments of another form are shown by their JSON only. */
export function ColumnsPreview({ argumentsJson }: { readonly argumentsJson: string }) {
  const columns = columnsOf(argumentsJson);
  if (columns.length === 0) return null;
  return (
    <Table.ScrollContainer minWidth={420}>
      <Table aria-label="Proposed columns" verticalSpacing={4}>
        <Table.Thead><Table.Tr><Table.Th>Column</Table.Th><Table.Th>Type</Table.Th><Table.Th>Description</Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>
          {columns.map(({ name, type, description }, index) => (
            <Table.Tr key={index}>
              <Table.Td className="foreign">{name}</Table.Td>
              <Table.Td className="foreign">{type}</Table.Td>
              <Table.Td className="foreign">{description}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
