// The tasks of a call of `run_tasks`. No I/O.
import { v1 } from "folio-client";
import { parsed, type Json } from "../extraction/fields.js";
import { member } from "./steps.js";

/** A task with the known part of its end. */
export interface TaskState {
  readonly number: number;
  readonly label: string;
  /** Id of the thread that is the log of the task. */
  readonly threadId: string;
  /** UNSPECIFIED: the task has not ended, or its end is not known. */
  readonly status: v1.TaskStatus;
  /** The answer of the child turn, or the reason of its failure. Empty: not known. */
  readonly summary: string;
}

const { UNSPECIFIED, COMPLETED, FAILED, CANCELLED, EXPIRED, SUPERSEDED, NOT_STARTED } = v1.TaskStatus;
const STATUS: Partial<Record<v1.TaskStatus, readonly [label: string, color: string]>> = {
  [COMPLETED]: ["Done", "green"],
  [FAILED]: ["Failed", "red"],
  [CANCELLED]: ["Cancelled", "gray"],
  [EXPIRED]: ["Not decided in time", "gray"],
  [SUPERSEDED]: ["Superseded", "gray"],
  [NOT_STARTED]: ["Not started", "gray"],
};
/** The names of states in the result of the call. */
const NAMES: ReadonlyMap<Json | undefined, v1.TaskStatus> = new Map<Json | undefined, v1.TaskStatus>([
  ["completed", COMPLETED],
  ["failed", FAILED],
  ["cancelled", CANCELLED],
  ["expired", EXPIRED],
  ["superseded", SUPERSEDED],
  ["not_started", NOT_STARTED],
]);

/** Returns the text and the color of a state. Empty: the state is not known. */
export function taskStatusOf(status: v1.TaskStatus): readonly [label: string, color: string] {
  return STATUS[status] ?? ["", "gray"];
}

/** The part of the result of a call that describes a task. */
interface TaskResult {
  readonly status: v1.TaskStatus;
  readonly summary: string;
}

/** Returns the results by the number of their task. A text that is no result of `run_tasks` contains none. */
function resultsOf(content: string): ReadonlyMap<Json | undefined, TaskResult> {
  const tasks = member(parsed(content), "tasks");
  const list: readonly Json[] = Array.isArray(tasks) ? tasks : [];
  return new Map(list.map((task): [Json | undefined, TaskResult] => {
    const summary = member(task, "summary");
    return [member(task, "task"), { status: NAMES.get(member(task, "status")) ?? UNSPECIFIED, summary: typeof summary === "string" ? summary : "" }];
  }));
}

/**
 * Returns the tasks of a group in their order. `ended`: the states of ended tasks by the id of their thread. `content`: the result of
 * the call, which states all ends; empty: the call has no result.
 */
export function tasksOf(group: v1.TaskGroup, ended: ReadonlyMap<string, v1.TaskStatus>, content: string): TaskState[] {
  const results = resultsOf(content);
  return group.tasks.map(({ number, agent, tool, threadId }) => {
    const result = results.get(number);
    const status = ended.get(threadId) ?? result?.status ?? UNSPECIFIED;
    return { number, label: tool === "" ? `Agent ${agent}` : `Tool ${tool}`, threadId, status, summary: result?.summary ?? "" };
  });
}
