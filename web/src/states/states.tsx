// The states that each view has before, or instead of, its content.
import { Alert, Button, Group, Loader, Stack, Text, Title } from "@mantine/core";
import { useNetwork } from "@mantine/hooks";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { isNotPermitted } from "../errors/advice.js";
import { ErrorNotice, type ActionHandlers } from "../errors/error_notice.js";

interface Message {
  readonly title: string;
  readonly text?: string;
  readonly children?: ReactNode;
}

/** A list without items, with the action that creates the first one. */
export function EmptyState({ title, text, children }: Message) {
  return (
    <Stack align="center" gap="xs" py="xl" ta="center">
      <Title order={2} size="h4">{title}</Title>
      {text !== undefined && <Text c="dimmed" maw={480}>{text}</Text>}
      {children}
    </Stack>
  );
}

export function LoadingState({ label = "Loading" }: { readonly label?: string }) {
  return (
    <Group justify="center" py="xl" role="status" aria-live="polite">
      <Loader size="sm" aria-hidden />
      <Text c="dimmed">{label}</Text>
    </Group>
  );
}

/** A view that the visitor's role or token does not permit. */
export function NoPermissionState() {
  return (
    <EmptyState
      title="You have no access to this"
      text="Your role or your token does not permit this view. An administrator of your organization can change that."
    />
  );
}

/** A banner while the browser has no network. */
export function OfflineBanner() {
  const { online } = useNetwork();
  if (online) return null;
  return (
    <Alert color="yellow" title="You are offline" role="alert" radius={0} py="xs">
      The page shows what it loaded before, and continues by itself when the connection is back.
    </Alert>
  );
}

interface QueryViewProps<T> {
  readonly query: UseQueryResult<T>;
  readonly children: (data: T) => ReactNode;
  /** Shown instead of the content. Undefined: the content is shown. */
  readonly empty?: (data: T) => ReactNode | undefined;
  readonly actions?: ActionHandlers;
}

/** Shows the content of a query, or the state in which it is. A failed refresh keeps the content and adds a notice. */
export function QueryView<T>({ query, children, empty, actions }: QueryViewProps<T>) {
  const retry: ActionHandlers = { retry: () => void query.refetch(), ...actions };
  if (query.data !== undefined) {
    return (
      <>
        {query.error !== null && <ErrorNotice error={query.error} actions={retry} />}
        {empty?.(query.data) ?? children(query.data)}
      </>
    );
  }
  if (query.error === null && query.fetchStatus === "paused") return <EmptyState title="You are offline" text="The view loads when the connection is back." />;
  if (query.error === null) return <LoadingState />;
  if (isNotPermitted(query.error)) return <NoPermissionState />;
  return <ErrorNotice error={query.error} actions={retry} />;
}

/** A button that loads the next page of a list, with the number of items. */
export function MoreButton({ onClick, loading }: { readonly onClick: () => void; readonly loading: boolean }) {
  return <Button variant="subtle" onClick={onClick} loading={loading}>Load more</Button>;
}
