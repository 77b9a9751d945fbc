import { Button, Group } from "@mantine/core";
import { useState } from "react";
import { AnswerCard } from "./answer_card.js";
import { Markdown } from "./markdown.js";
import { usePastTurn } from "./queries.js";
import { typedAnswer } from "./steps.js";

interface PastAnswerProps {
  readonly turnId: string;
  /** The answer until the turn is read, or if the server no longer has it. */
  readonly text: string;
  /** True: the turn is read at once. False: on demand. */
  readonly isRecent: boolean;
}

/** The typed answer of an earlier turn. */
export function PastAnswer({ turnId, text, isRecent }: PastAnswerProps) {
  const [isWanted, setWanted] = useState(isRecent);
  const turn = usePastTurn(turnId, isWanted);
  const answer = turn.data === undefined || turn.data === null ? undefined : typedAnswer(turn.data);
  if (answer !== undefined) return <AnswerCard answer={answer} />;
  return (
    <>
      <Markdown text={text} />
      {!isWanted && <Group><Button size="compact-xs" variant="subtle" color="gray" onClick={() => setWanted(true)}>Sources</Button></Group>}
    </>
  );
}
