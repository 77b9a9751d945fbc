import { Badge, Button, Group, Progress, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { failureReasons, progressOf } from "../batches/progress.js";
import { budgetOf } from "../documents/uploads.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatNumber, formatPercent } from "../format.js";
import { isOpenJob, jobKey, useFillJob } from "./queries.js";

interface FillControlProps {
  readonly stackId: string;
  readonly canWrite: boolean;
  /** False: the table has no columns. */
  readonly isDefined: boolean;
}

/** Starts, pauses and cancels the job that fills the rows, with its progress and its credit. */
export function FillControl({ stackId, canWrite, isDefined }: FillControlProps) {
  const api = useApi();
  const queries = useQueryClient();
  const job = useFillJob(stackId);
  const [text, setText] = useState("");
  const budget = budgetOf(text.trim());
  const isInvalid = text.trim() !== "" && budget === undefined;
  const onSettled = () => queries.invalidateQueries({ queryKey: jobKey(stackId) });
  const start = useMutation({
    mutationFn: async () => (await api.service(v1.StackService).fillStack({ stackId, ...(budget !== undefined && { creditBudget: budget }) })).job,
    onSuccess: (created) => created !== undefined && queries.setQueryData(jobKey(stackId), created),
    onSettled,
  });
  const act = useMutation({
    mutationFn: async ({ action, jobId }: { action: "cancelJob" | "pauseJob" | "resumeJob"; jobId: string }) => void (await api.service(v1.JobService)[action]({ jobId })),
    onSettled,
  });
  const current = job.data ?? undefined;
  const isOpen = current !== undefined && isOpenJob(current);
  const error = start.error ?? act.error ?? job.error;
  const button = (label: string, action: "cancelJob" | "pauseJob" | "resumeJob") =>
    current !== undefined && <Button size="xs" variant="default" loading={act.isPending} onClick={() => act.mutate({ action, jobId: current.jobId })}>{label}</Button>;
  return (
    <Group gap="xs" role="group" aria-label="Filling" align="flex-start">
      {canWrite && !isOpen && isDefined && (
        <>
          <TextInput size="xs" aria-label="Credit budget of the filling" placeholder="Credit budget (optional)" inputMode="numeric" maxLength={13} value={text} onChange={(event) => setText(event.currentTarget.value)} error={isInvalid && "Enter 1 to 1,000,000,000,000 credits."} w={190} />
          <Button size="xs" loading={start.isPending} disabled={isInvalid} onClick={() => start.mutate()}>Fill the rows</Button>
        </>
      )}
      {current !== undefined && <FillProgress job={current} />}
      {canWrite && isOpen && (
        <>
          {current.state === v1.JobState.PAUSED ? button("Resume", "resumeJob") : button("Pause", "pauseJob")}
          {button("Cancel", "cancelJob")}
        </>
      )}
      {error !== null && <ErrorNotice error={error} onClose={() => { start.reset(); act.reset(); }} />}
    </Group>
  );
}

function FillProgress({ job }: { readonly job: v1.Job }) {
  const { state, doneItems, failedItems, totalItems, creditBudget, error } = job;
  const done = progressOf(job);
  const ended = failedItems > 0 ? "yellow" : "green";
  return (
    <Group gap="xs" mih={30}>
      <Badge size="sm" variant="light" color={state === v1.JobState.FAILED ? "red" : state === v1.JobState.COMPLETED ? ended : "blue"}>{(v1.JobState[state] ?? "").toLowerCase()}</Badge>
      <Progress w={120} value={done * 100} color={ended} aria-label={`Progress of the filling ${formatPercent(done)}`} />
      <Text size="xs" role="status">{`${formatNumber(doneItems)} of ${formatNumber(totalItems)} rows${failedItems > 0 ? `, ${formatNumber(failedItems)} failed` : ""}`}</Text>
      {creditBudget !== undefined && <Text size="xs" c="dimmed">{`${formatNumber(creditBudget.used)} of ${formatNumber(creditBudget.credits)} credits used`}</Text>}
      {error !== undefined && <Text size="xs" c="red" className="foreign">{error.message}</Text>}
      {failureReasons(job).map((reason) => <Text key={reason} size="xs" c="red" className="foreign">{reason}</Text>)}
    </Group>
  );
}
