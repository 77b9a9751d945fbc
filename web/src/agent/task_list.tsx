import { Badge, Button, Card, Group, Stack, Text } from "@mantine/core";
import { v1 } from "folio-client";
import { lazy, Suspense, useState } from "react";
import { LoadingState } from "../states/states.js";
import { taskStatusOf, type TaskState } from "./tasks.js";

const TaskLog = lazy(async () => ({ default: (await import("./task_log.js")).TaskLog }));

interface TaskListProps {
  readonly tasks: readonly TaskState[];
  /** True if the call has no result, so that tasks without an end run or wait. */
  readonly isOpen: boolean;
}

/** The tasks of a call with their states and logs. */
export function TaskList({ tasks, isOpen }: TaskListProps) {
  return (
    <Stack gap={4} mt={6} role="list" aria-label="Tasks">
      {tasks.map((task) => <TaskItem key={task.threadId} task={task} isOpen={isOpen} />)}
    </Stack>
  );
}

function TaskItem({ task, isOpen }: { readonly task: TaskState; readonly isOpen: boolean }) {
  const [isShown, setShown] = useState(false);
  const { number, label, threadId, status, summary } = task;
  const [end, color] = taskStatusOf(status);
  const isActive = isOpen && status === v1.TaskStatus.UNSPECIFIED;
  return (
    <Card withBorder padding={6} role="listitem">
      <Group justify="space-between" wrap="nowrap" gap="xs">
        <Text size="xs" className="foreign" flex={1}>{`${number}. ${label}`}</Text>
        {isActive && <Badge size="xs" color="blue" role="status">In progress</Badge>}
        {end !== "" && <Badge size="xs" variant="light" color={color}>{end}</Badge>}
        <Button size="compact-xs" variant="subtle" color="gray" aria-expanded={isShown} aria-label={`Log of task ${number}`} onClick={() => setShown(!isShown)}>Log</Button>
      </Group>
      {summary !== "" && !isShown && <Text size="xs" c="dimmed" className="foreign" lineClamp={3}>{summary}</Text>}
      {isShown && <Suspense fallback={<LoadingState />}><TaskLog key={status} threadId={threadId} /></Suspense>}
    </Card>
  );
}
