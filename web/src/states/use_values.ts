import { useState } from "react";

/** Returns the values of a form, and a function that changes some of them. */
export function useValues<T extends object>(initial: T): readonly [values: T, change: (changes: Partial<T>) => void] {
  const [values, setValues] = useState(initial);
  return [values, (changes) => setValues((before) => ({ ...before, ...changes }))];
}
