import { Anchor, Badge, Button, Group, Modal, Progress, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useSearchParams } from "wouter";
import { useApi, useStream } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { ExportMenu } from "../extraction/export_menu.js";
import { formatPercent, formatTime } from "../format.js";
import { ListView } from "../lists/list_view.js";
import { usePermits } from "../session/session_context.js";
import { EmptyState, QueryView } from "../states/states.js";
import { JobResults } from "./job_results.js";
import { progressOf } from "./progress.js";

const REFRESH_MS = 5_000;
const { QUEUED, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED } = v1.JobState;
const OPEN: readonly v1.JobState[] = [QUEUED, RUNNING, WAITING, PAUSED];
const COLORS: Partial<Record<v1.JobState, string>> = { [RUNNING]: "blue", [COMPLETED]: "green", [FAILED]: "red", [WAITING]: "yellow" };

/** The jobs that run prompts on documents, with their progress and results. The address contains the opened one. */
export function BatchesView() {
  const api = useApi();
  const [parameters, setParameters] = useSearchParams();
  const jobId = parameters.get("job") ?? undefined;
  return (
    <>
      <ListView<v1.Job>
        title="Batches"
        queryKey={["jobs"]}
        refetchInterval={REFRESH_MS}
        load={async (pageToken, signal) => {
          const { jobs, nextPageToken } = await api.service(v1.JobService).listJobs({ pageToken }, { signal });
          return { items: jobs, nextPageToken };
        }}
        keyOf={({ jobId }) => jobId}
        emptyText="Select documents and extract them to start a batch."
        columns={[
          { label: "Started", cell: ({ createTime, jobId }) => <Anchor component="button" size="sm" onClick={() => setParameters({ job: jobId })}>{formatTime(createTime) || jobId}</Anchor> },
          { label: "Kind", cell: ({ kind }) => kind.replaceAll("_", " ") },
          { label: "State", cell: ({ state }) => <JobBadge state={state} /> },
          { label: "Progress", cell: (job) => <JobProgress job={job} /> },
        ]}
      />
      <Modal opened={jobId !== undefined} onClose={() => setParameters({})} title="Batch" size="xl">
        {jobId !== undefined && <JobDetails jobId={jobId} />}
      </Modal>
    </>
  );
}

function JobBadge({ state }: { readonly state: v1.JobState }) {
  return <Badge size="sm" variant="light" color={COLORS[state] ?? "gray"}>{(v1.JobState[state] ?? "").toLowerCase()}</Badge>;
}

function JobProgress({ job }: { readonly job: v1.Job }) {
  const { doneItems, failedItems, totalItems } = job;
  const done = progressOf(job);
  return (
    <Group gap="xs" wrap="nowrap">
      <Progress w={120} value={done * 100} color={failedItems > 0 ? "yellow" : "green"} aria-label={`Progress ${formatPercent(done)}`} />
      <Text size="xs">{`${doneItems} of ${totalItems}${failedItems > 0 ? `, ${failedItems} failed` : ""}`}</Text>
    </Group>
  );
}

/** A job as it runs, with the results of its items. */
function JobDetails({ jobId }: { readonly jobId: string }) {
  const api = useApi();
  const queries = useQueryClient();
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.EXTRACTIONS);
  const key = ["job", jobId];
  const job = useQuery({ queryKey: key, queryFn: async ({ signal }) => (await api.service(v1.JobService).getJob({ jobId }, { signal })).job ?? null });
  useStream(`job ${jobId}`, async (signal) => {
    try {
      for await (const state of api.watchJob(jobId, { signal })) queries.setQueryData(key, state);
    } catch {
      await queries.invalidateQueries({ queryKey: key });
    }
  });
  const act = useMutation({
    mutationFn: async (action: "cancelJob" | "pauseJob" | "resumeJob" | "retryJob") => void (await api.service(v1.JobService)[action]({ jobId })),
    onSettled: () => queries.invalidateQueries({ queryKey: key }),
  });
  return (
    <QueryView query={job} empty={(data) => (data === null ? <EmptyState title="Not found" /> : undefined)}>
      {(data) => data !== null && (
        <Stack>
          <Group justify="space-between"><JobBadge state={data.state} /><JobProgress job={data} /></Group>
          {canWrite && (
            <Group gap="xs">
              {[QUEUED, RUNNING, WAITING].includes(data.state) && <Button size="xs" variant="default" onClick={() => act.mutate("pauseJob")}>Pause</Button>}
              {data.state === PAUSED && <Button size="xs" onClick={() => act.mutate("resumeJob")}>Resume</Button>}
              {OPEN.includes(data.state) && <Button size="xs" variant="default" color="red" c="red" onClick={() => act.mutate("cancelJob")}>Cancel</Button>}
              {([FAILED, CANCELLED] as v1.JobState[]).concat(data.failedItems > 0 ? [COMPLETED] : []).includes(data.state) && <Button size="xs" onClick={() => act.mutate("retryJob")}>Retry failed items</Button>}
            </Group>
          )}
          {act.error !== null && <ErrorNotice error={act.error} onClose={act.reset} />}
          {data.error !== undefined && <Text size="sm" c="red" className="foreign">{data.error.message}</Text>}
          {data.doneItems > 0 && <Group justify="flex-end"><ExportMenu selection={{ jobIds: [jobId] }} fileName={jobId} /></Group>}
          <JobResults jobId={jobId} isOpen={OPEN.includes(data.state)} />
        </Stack>
      )}
    </QueryView>
  );
}
