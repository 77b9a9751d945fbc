import { useEffect } from "react";

/** Calls `onEnd` while the last of `count` rows is rendered. `last`: the index of the last rendered row. Undefined: no row is rendered. */
export function useEnd(last: number | undefined, count: number, onEnd: () => void): void {
  const isAtEnd = last === count - 1;
  useEffect(() => {
    if (isAtEnd) onEnd();
  }, [isAtEnd, count, onEnd]);
}
