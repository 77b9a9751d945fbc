import { useState, type KeyboardEvent } from "react";

/**
 * The text of a value that is edited. Keys: Enter saves, Escape leaves the value unchanged.
 *
 * `submit` saves the value of a text, or returns the problem of a text that is no value.
 */
export function useValueEditor(initialText: () => string, submit: (text: string) => string | undefined, onCancel: () => void) {
  const [text, setText] = useState(initialText);
  const [problem, setProblem] = useState<string>();
  const save = () => setProblem(submit(text));
  const onKeyDown = (event: KeyboardEvent) => {
    // Both keys also end the composition of CJK text.
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Escape") onCancel();
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    save();
  };
  const change = (next: string) => {
    setText(next);
    setProblem(undefined);
  };
  return { text, problem, save, change, onKeyDown };
}
