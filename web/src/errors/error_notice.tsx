import { Alert, Button, Group, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useLocation } from "wouter";
import { usePermits, useSession } from "../session/session_context.js";
import { adviceFor, retrySeconds, withoutLimits, type Action } from "./advice.js";

export type ActionHandlers = Partial<Record<Action, () => void>>;

interface ErrorNoticeProps {
  readonly error: unknown;
  /** The actions that have a special effect in this view. Other actions have the same effect in each view. */
  readonly actions?: ActionHandlers;
  readonly onClose?: () => void;
}

/** The message of an error, with a button for the action that helps. */
export function ErrorNotice({ error, actions, onClose }: ErrorNoticeProps) {
  const readsLimits = usePermits(v1.Role.ADMIN, v1.Scope.ADMINISTRATION);
  const advice = readsLimits ? adviceFor(error) : withoutLimits(adviceFor(error));
  const common = useCommonActions();
  const act = advice.action === "none" ? undefined : (actions?.[advice.action] ?? common[advice.action]);
  const seconds = retrySeconds(error);
  return (
    <Alert
      color="red"
      title={advice.title}
      role="alert"
      my="xs"
      {...(onClose && { withCloseButton: true, closeButtonLabel: "Close", onClose })}
    >
      <Text size="sm" className="foreign">{advice.text}</Text>
      {seconds !== undefined && <Text size="sm">{`Try again in ${seconds} s.`}</Text>}
      {act !== undefined && (
        <Group mt="xs">
          <Button size="xs" variant="light" color="red" onClick={act}>{advice.label}</Button>
        </Group>
      )}
    </Alert>
  );
}

function useCommonActions(): ActionHandlers {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const { end } = useSession();
  return {
    retry: () => void queries.refetchQueries({ type: "active" }),
    reload: () => void queries.invalidateQueries(),
    "sign in": end,
    "show usage": () => navigate("/usage"),
    "show limits": () => navigate("/administration/limits"),
    "show approvers": () => navigate("/administration/policy"),
  };
}
