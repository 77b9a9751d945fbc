import { SearchSelect, type Option } from "../lists/search_select.js";
import { usePrompts } from "../prompts/queries.js";

/** The value of the prompt that the server contains. */
export const BUILT_IN: string = "default";
const BUILT_IN_LABEL = "Built-in prompt";

interface PromptSelectProps {
  /** The id of a prompt, or `default`. */
  readonly value: string;
  readonly onChange: (promptId: string) => void;
  /** True: a small input without a visible label. */
  readonly isCompact?: boolean;
}

function useFound(text: string): readonly Option[] {
  const prompts = usePrompts(text);
  return [{ value: BUILT_IN, label: BUILT_IN_LABEL }, ...(prompts.data ?? []).map(({ promptId, name }) => ({ value: promptId, label: name }))];
}

/** Chooses the prompt of an extraction. */
export function PromptSelect({ value, onChange, isCompact = false }: PromptSelectProps) {
  const props = { value, onChange, useFound, firstLabel: BUILT_IN_LABEL };
  if (isCompact) return <SearchSelect size="xs" aria-label="Prompt" flex={1} allowDeselect={false} {...props} />;
  return <SearchSelect label="Prompt" allowDeselect={false} {...props} />;
}
