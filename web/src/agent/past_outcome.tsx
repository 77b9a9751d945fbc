import { Alert, Text } from "@mantine/core";
import { errorOfMessage, v1 } from "folio-client";
import { adviceFor } from "../errors/advice.js";
import { usePastTurn } from "./queries.js";

const OUTCOMES: Partial<Record<v1.TurnStatus, string>> = {
  [v1.TurnStatus.CANCELLED]: "The answer was stopped.",
  [v1.TurnStatus.EXPIRED]: "The calls were not decided in time, and none of them ran.",
  [v1.TurnStatus.SUPERSEDED]: "A later message replaced the waiting calls, and none of them ran.",
};

/** The end of an earlier turn that gave no answer. Nothing is shown if the server no longer has the turn. */
export function PastOutcome({ turnId }: { readonly turnId: string }) {
  const { data: turn } = usePastTurn(turnId, true);
  if (turn === undefined || turn === null) return null;
  if (turn.status === v1.TurnStatus.FAILED) {
    const { title, text } = adviceFor(errorOfMessage(turn.error));
    return <Alert color="red" title={title} role="status" my="xs"><Text size="sm" className="foreign">{text}</Text></Alert>;
  }
  const text = OUTCOMES[turn.status];
  return text === undefined ? null : <Text size="xs" c="dimmed" role="status">{text}</Text>;
}
