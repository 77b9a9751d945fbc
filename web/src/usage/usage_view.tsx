import { Anchor, Card, Group, Progress, SegmentedControl, Select, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { Link } from "wouter";
import { useApi } from "../api/api.js";
import { formatNumber } from "../format.js";
import { EmptyState, QueryView } from "../states/states.js";

const { MODEL, OPERATION, DOCUMENT, USER, DAY } = v1.UsageGroup;
const GROUPS = [
  { value: String(DAY), label: "Day" },
  { value: String(MODEL), label: "Model" },
  { value: String(OPERATION), label: "Operation" },
  { value: String(USER), label: "User" },
  { value: String(DOCUMENT), label: "Document" },
];
const PERIODS = [7, 30, 90];
const ROWS_MAX = 200;

/** Returns the name of a row in its group. */
export function rowName(row: Pick<v1.UsageRow, "model" | "operation" | "documentId" | "userId" | "day">): string {
  return row.day || row.model || row.operation || row.documentId || row.userId || "other";
}

/** Returns the rows in the order of a chart: days by time, others as the server sent them, the most expensive first. */
export function ordered(rows: readonly v1.UsageRow[], group: v1.UsageGroup): v1.UsageRow[] {
  return group === DAY ? [...rows].sort((a, b) => (a.day < b.day ? -1 : 1)) : [...rows];
}

/** Returns the rows that a chart shows: the newest days, or the most expensive groups. */
export function shownRows(rows: readonly v1.UsageRow[], group: v1.UsageGroup): v1.UsageRow[] {
  const all = ordered(rows, group);
  return group === DAY ? all.slice(-ROWS_MAX) : all.slice(0, ROWS_MAX);
}

/** The credits and tokens of model calls, and the balance. */
export function UsageView() {
  const api = useApi();
  const [group, setGroup] = useState<v1.UsageGroup>(DAY);
  const [days, setDays] = useState(30);
  const balance = useQuery({ queryKey: ["balance"], queryFn: ({ signal }) => api.service(v1.UsageService).getBalance({}, { signal }) });
  const usage = useQuery({
    queryKey: ["usage", group, days],
    queryFn: ({ signal }) => {
      const start = new Date(Date.now() - days * 86_400_000);
      // Whole hours have stored sums, which the server reads fast.
      start.setUTCMinutes(0, 0, 0);
      return api.service(v1.UsageService).getUsage({ startTime: timestampFromDate(start), groupBy: [group] }, { signal });
    },
  });
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Title order={1} size="h3">Usage</Title>
        <Group gap="xs">
          <SegmentedControl size="xs" aria-label="Group by" data={GROUPS} value={String(group)} onChange={(value) => setGroup(Number(value))} />
          <Select size="xs" aria-label="Period" data={PERIODS.map((period) => ({ value: String(period), label: `${period} days` }))} value={String(days)} onChange={(value) => setDays(Number(value) || 30)} allowDeselect={false} w={110} />
        </Group>
      </Group>
      <QueryView query={balance}>
        {({ available, settled, unlimited }) => (
          <SimpleGrid cols={{ base: 1, sm: 3 }}>
            <Statistic label="Available credits" value={unlimited ? "unlimited" : formatNumber(available)} />
            <Statistic label="Used credits" value={formatNumber(settled)} />
            <Statistic label={`Credits in ${days} days`} value={usage.data?.total === undefined ? "…" : formatNumber(usage.data.total.credits)} />
          </SimpleGrid>
        )}
      </QueryView>
      <QueryView query={usage} empty={({ rows }) => (rows.length === 0 ? <EmptyState title="No model calls" text="The period has no calls." /> : undefined)}>
        {({ rows }) => <UsageTable rows={shownRows(rows, group)} />}
      </QueryView>
    </Stack>
  );
}

function Statistic({ label, value }: { readonly label: string; readonly value: string }) {
  return <Card withBorder padding="sm"><Text size="xs" c="dimmed">{label}</Text><Text size="xl" fw={600}>{value}</Text></Card>;
}

function UsageTable({ rows }: { readonly rows: readonly v1.UsageRow[] }) {
  const most = rows.reduce((most, { credits }) => (credits > most ? credits : most), 1n);
  return (
    <Table aria-label="Usage" verticalSpacing={4}>
      <Table.Thead><Table.Tr>{["Group", "Credits", "Share", "Calls", "Tokens read", "Tokens written"].map((label) => <Table.Th key={label}>{label}</Table.Th>)}</Table.Tr></Table.Thead>
      <Table.Tbody>
        {rows.map((row) => (
          <Table.Tr key={rowName(row)}>
            <Table.Td className="foreign">{row.documentId === "" ? rowName(row) : <Anchor component={Link} href={`/documents/${row.documentId}`} size="sm">{row.documentId}</Anchor>}</Table.Td>
            <Table.Td>{formatNumber(row.credits)}</Table.Td>
            <Table.Td w="30%"><Progress value={Number((row.credits * 100n) / most)} aria-hidden /></Table.Td>
            <Table.Td>{formatNumber(row.calls)}</Table.Td>
            <Table.Td>{formatNumber(row.inputTokens)}</Table.Td>
            <Table.Td>{formatNumber(row.outputTokens)}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
