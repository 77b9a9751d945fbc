import { Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { usePrompts } from "./queries.js";

const SEARCH_DELAY_MS = 250;
const SEARCH_MAX = 200;
const BUILT_IN = { value: "default", label: "Built-in prompt" };

interface PromptSelectProps {
  /** True: a small input without a visible label. */
  readonly isCompact?: boolean;
  /** Receives the id of a prompt, or `default`. */
  readonly onChange: (promptId: string) => void;
}

/** Chooses a prompt, at first the built-in one. The server searches by what is typed. */
export function PromptSelect({ isCompact = false, onChange }: PromptSelectProps) {
  const [chosen, setChosen] = useState(BUILT_IN);
  const [text, setText] = useState("");
  const [searched] = useDebouncedValue(text, SEARCH_DELAY_MS);
  // The input shows the name of the chosen prompt, which is no search.
  const prompts = usePrompts(searched === chosen.label ? "" : searched);
  const found = [BUILT_IN, ...(prompts.data ?? []).map(({ promptId, name }) => ({ value: promptId, label: name }))];
  const options = found.some(({ value }) => value === chosen.value) ? found : [...found, chosen];
  const choose = (promptId: string | null) => {
    const option = options.find(({ value }) => value === promptId) ?? BUILT_IN;
    setChosen(option);
    onChange(option.value);
  };
  const search = (typed: string) => setText(typed.slice(0, SEARCH_MAX));
  const props = { data: options, value: chosen.value, onChange: choose, onSearchChange: search };
  if (isCompact) return <Select size="xs" aria-label="Prompt" flex={1} {...props} searchable allowDeselect={false} />;
  return <Select label="Prompt" {...props} searchable allowDeselect={false} />;
}
