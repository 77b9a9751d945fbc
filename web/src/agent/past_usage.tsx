import { Button, Group, Text } from "@mantine/core";
import { useState } from "react";
import { QueryView } from "../states/states.js";
import { usePastTurn } from "./queries.js";
import { usageSentence } from "./turn_state.js";

/** The tokens and credits of an earlier turn, which are read on demand. */
export function PastUsage({ turnId }: { readonly turnId: string }) {
  const [isShown, setShown] = useState(false);
  const turn = usePastTurn(turnId, isShown);
  if (!isShown) return <Group><Button size="compact-xs" variant="subtle" color="gray" onClick={() => setShown(true)}>Usage</Button></Group>;
  return (
    <QueryView query={turn}>
      {(data) => <Text size="xs" c="dimmed" role="status">{data?.usage === undefined ? "No model call was counted." : usageSentence(data.usage)}</Text>}
    </QueryView>
  );
}
