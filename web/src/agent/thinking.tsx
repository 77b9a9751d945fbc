import { Text } from "@mantine/core";
import { useEffect, useState } from "react";

/** The thinking of a model, folded, with the seconds that it takes. */
export function Thinking({ text, isRunning }: { readonly text: string; readonly isRunning: boolean }) {
  const seconds = useSeconds(isRunning);
  if (text === "") return null;
  const label = isRunning ? `Thinking for ${seconds} s` : seconds > 0 ? `Thought for ${seconds} s` : "Thinking";
  return (
    <details>
      <summary><Text span size="xs" c="dimmed">{label}</Text></summary>
      <Text size="xs" c="dimmed" className="foreign" pl="sm">{text}</Text>
    </details>
  );
}

/** Returns the seconds since the component ran first, counted while it runs. */
function useSeconds(isRunning: boolean): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => setSeconds((before) => before + 1), 1_000);
    return () => clearInterval(timer);
  }, [isRunning]);
  return seconds;
}
