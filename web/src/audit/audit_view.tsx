import { Code, Select, TextInput, Text } from "@mantine/core";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { useDebouncedCallback } from "@mantine/hooks";
import { v1 } from "folio-client";
import { useMemo } from "react";
import { useSearchParams } from "wouter";
import { indented } from "../agent/calls.js";
import { useApi } from "../api/api.js";
import { formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";

const PAGE = 100;
const DELAY_MS = 300;
const SUBJECT_MAX = 100;
/** The kinds of entries, as the condition `kind=` names them. */
const KINDS = ["call_approved", "call_edited", "call_rejected", "call_allowed", "call_denied", "call_effect", "change_requested", "change_applied", "change_failed"];

/** The periods that a user can select, in days. */
const PERIODS = ["1", "7", "30", "90"];
const DAY_MS = 86_400_000;

/** Returns the start of a period that ends now. Undefined: `days` is no selectable period, and the whole log is listed. */
export function periodStart(days: string | null, now: Date): Date | undefined {
  return days !== null && PERIODS.includes(days) ? new Date(now.getTime() - Number(days) * DAY_MS) : undefined;
}

/** Returns the `filter` of `ListAuditEntries` for the query parameters of the page. An invalid parameter is ignored. */
export function auditFilter(parameters: URLSearchParams): string {
  const kind = parameters.get("kind") ?? "";
  const conditions = KINDS.includes(kind) ? [`kind=${kind}`] : [];
  for (const name of ["subject", "user", "thread", "turn"]) {
    const value = parameters.get(name) ?? "";
    if (/^[A-Za-z0-9_.]{1,100}$/.test(value)) conditions.push(`${name}=${value}`);
  }
  return conditions.join(" ");
}

/** The audit log with its filters. */
export function AuditView() {
  const api = useApi();
  const [parameters, setParameters] = useSearchParams();
  const filter = auditFilter(parameters);
  const days = parameters.get("days");
  // All pages of one list need the same start: a page token is valid for one period only.
  const start = useMemo(() => periodStart(days, new Date()), [days]);
  const set = (name: string, value: string) => setParameters((before) => {
    if (value === "") before.delete(name);
    else before.set(name, value);
    return before;
  }, { replace: true });
  const setLater = useDebouncedCallback(set, DELAY_MS);
  const input = (name: string, label: string) => (
    <TextInput size="xs" aria-label={label} placeholder={label} defaultValue={parameters.get(name) ?? ""} maxLength={SUBJECT_MAX} onChange={(event) => setLater(name, event.currentTarget.value.trim())} w={150} />
  );
  return (
    <ListView<v1.AuditEntry>
      title="Audit log"
      queryKey={["audit", { filter, start: start?.getTime() ?? 0 }]}
      load={async (pageToken, signal) => {
        const { entries, nextPageToken } = await api.service(v1.AuditService).listAuditEntries({ filter, pageToken, pageSize: PAGE, ...(start && { startTime: timestampFromDate(start) }) }, { signal });
        return { items: entries, nextPageToken };
      }}
      keyOf={({ entryId }) => entryId}
      emptyText="No entry matches the filters."
      columns={[
        { label: "Time", cell: ({ createTime }) => formatTime(createTime) },
        { label: "Event", cell: ({ kind }) => (v1.AuditKind[kind] ?? "").toLowerCase().replaceAll("_", " ") },
        { label: "User", cell: ({ userId }) => userId || "the server" },
        { label: "Subject", cell: ({ subject, rule }) => <>{subject}{rule !== "" && <Text size="xs" c="dimmed">{`rule “${rule}”`}</Text>}</> },
        { label: "Target", cell: ({ targetKind, targetId }) => `${targetKind} ${targetId}`.trim() },
        { label: "Outcome", cell: ({ outcome }) => outcome },
        { label: "Arguments", cell: ({ argumentsJson }) => argumentsJson !== "" && <details><summary>Show</summary><Code block className="foreign">{indented(argumentsJson)}</Code></details> },
      ]}
    >
      <Select size="xs" aria-label="Event" placeholder="Any event" clearable data={KINDS.map((value) => ({ value, label: value.replaceAll("_", " ") }))} value={parameters.get("kind")} onChange={(kind) => set("kind", kind ?? "")} w={160} />
      <Select size="xs" aria-label="Period" placeholder="Any time" clearable data={PERIODS.map((value) => ({ value, label: value === "1" ? "1 day" : `${value} days` }))} value={start === undefined ? null : days} onChange={(value) => set("days", value ?? "")} w={110} />
      {input("subject", "Tool or operation")}
      {input("user", "User id")}
    </ListView>
  );
}
