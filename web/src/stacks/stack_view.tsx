import { Alert, Anchor, Badge, Button, Group, Modal, Stack, Tabs, Text, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { lazy, Suspense, useCallback, useMemo, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { stackSubject } from "../agent/subject.js";
import { useApi } from "../api/api.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { formatTime } from "../format.js";
import { usePermits } from "../session/session_context.js";
import { EmptyState, LoadingState, QueryView } from "../states/states.js";
import { STACKS_KEY, useLiveTable, useStack } from "./queries.js";
import { TablePanel } from "./table_panel.js";

const ThreadPanel = lazy(async () => ({ default: (await import("../agent/thread_panel.js")).ThreadPanel }));
const Conflicts = lazy(async () => ({ default: (await import("./conflicts.js")).Conflicts }));
const ColumnsForm = lazy(async () => ({ default: (await import("./columns_form.js")).ColumnsForm }));
const StackForm = lazy(async () => ({ default: (await import("./stack_form.js")).StackForm }));

const PANELS = ["table", "agent", "conflicts"] as const;

/** A stack: its table, the conversations with its agent, and the conflicts among its documents. */
export function StackView({ stackId }: { readonly stackId: string }) {
  const stack = useStack(stackId);
  useLiveTable(stackId);
  return (
    <QueryView query={stack} empty={(data) => (data === null ? <EmptyState title="Not found" /> : undefined)}>
      {(data) => data !== null && <LoadedStack stack={data} />}
    </QueryView>
  );
}

function LoadedStack({ stack }: { readonly stack: v1.Stack }) {
  const api = useApi();
  const { stackId, name, description, columns, completeTime } = stack;
  const canWrite = usePermits(v1.Role.MEMBER, v1.Scope.EXTRACTIONS);
  const mayChat = usePermits(v1.Role.VIEWER, v1.Scope.CONVERSATIONS);
  const [parameters, setParameters] = useSearchParams();
  const [form, setForm] = useState<"columns" | "settings" | "delete">();
  const panel = PANELS.find((known) => known === parameters.get("panel") && (known !== "agent" || mayChat)) ?? "table";
  const setPanel = (panel: string | null) => setParameters((before) => { before.set("panel", panel ?? "table"); return before; }, { replace: true });
  const createThread = useCallback(async (requestId: string) => (await api.service(v1.StackService).createStackThread({ stackId, requestId })).threadId, [api, stackId]);
  const subject = useMemo(() => stackSubject(stackId, createThread), [stackId, createThread]);
  const close = () => setForm(undefined);
  return (
    <Stack gap="xs">
      <Group justify="space-between" gap="sm">
        <Group gap="sm">
          <Anchor component={Link} href="/stacks" size="sm">Stacks</Anchor>
          <Title order={1} size="h4" className="foreign" lineClamp={1}>{name}</Title>
          {completeTime !== undefined && <Badge variant="light" color="green" title={formatTime(completeTime)}>Complete</Badge>}
        </Group>
        {canWrite && (
          <Group gap="xs">
            <Button size="xs" variant="default" onClick={() => setForm("columns")}>Columns</Button>
            <Button size="xs" variant="default" onClick={() => setForm("settings")}>Settings</Button>
            <Button size="xs" variant="subtle" color="red" onClick={() => setForm("delete")}>Delete</Button>
          </Group>
        )}
      </Group>
      {stack.tooManyDocuments && <Alert color="yellow" p="xs" title="More than 10,000 documents fulfill the rule">No row is created or filled until the rule selects fewer documents.</Alert>}
      {description !== "" && <Text size="sm" c="dimmed" className="foreign" lineClamp={2}>{description}</Text>}
      <Tabs value={panel} keepMounted={false} onChange={setPanel}>
        <Tabs.List mb="sm" aria-label="Panel">
          <Tabs.Tab value="table">Table</Tabs.Tab>
          {mayChat && <Tabs.Tab value="agent">Agent</Tabs.Tab>}
          <Tabs.Tab value="conflicts">Conflicts</Tabs.Tab>
        </Tabs.List>
        <Suspense fallback={<LoadingState />}>
          <Tabs.Panel value="table">
            {columns.length === 0 ? (
              <EmptyState title="The table has no columns" text="An agent can read a sample of the documents and propose columns, or you define them.">
                {canWrite && <Group>{mayChat && <Button onClick={() => setPanel("agent")}>Propose columns with an agent</Button>}<Button variant="default" onClick={() => setForm("columns")}>Define columns</Button></Group>}
              </EmptyState>
            ) : (
              <TablePanel stack={stack} canWrite={canWrite} />
            )}
          </Tabs.Panel>
          {mayChat && <Tabs.Panel value="agent"><ThreadPanel subject={subject} firstText="Propose the columns of this table." /></Tabs.Panel>}
          <Tabs.Panel value="conflicts"><Conflicts stack={stack} /></Tabs.Panel>
        </Suspense>
      </Tabs>
      <Modal opened={form === "columns"} onClose={close} title="Columns" size="xl">
        {form === "columns" && <Suspense fallback={<LoadingState />}><ColumnsForm stack={stack} onDone={close} /></Suspense>}
      </Modal>
      <Modal opened={form === "settings"} onClose={close} title="Settings of the stack" size="lg">
        {form === "settings" && <Suspense fallback={<LoadingState />}><StackForm stack={stack} onDone={close} /></Suspense>}
      </Modal>
      <Modal opened={form === "delete"} onClose={close} title="Delete the stack">
        {form === "delete" && <DeleteForm stack={stack} />}
      </Modal>
    </Stack>
  );
}

function DeleteForm({ stack: { stackId, etag } }: { readonly stack: v1.Stack }) {
  const api = useApi();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const remove = useMutation({
    mutationFn: () => api.service(v1.StackService).deleteStack({ stackId, etag }),
    onSuccess: async () => {
      navigate("/stacks");
      await queries.invalidateQueries({ queryKey: STACKS_KEY });
    },
  });
  return (
    <Stack>
      <Text size="sm">The table with its rows is deleted permanently. The documents are kept.</Text>
      {remove.error !== null && <ErrorNotice error={remove.error} />}
      <Button color="red" loading={remove.isPending} onClick={() => remove.mutate()}>Delete</Button>
    </Stack>
  );
}
