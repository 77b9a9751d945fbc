import { Stack, Text } from "@mantine/core";
import { lazy, Suspense } from "react";
import { LoadingState } from "../states/states.js";
import type { JsonProblem } from "./problems.js";

const CodeEditor = lazy(async () => ({ default: (await import("./code_editor.js")).CodeEditor }));

export interface JsonEditorProps {
  /** The accessible name. */
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly isInvalid?: boolean | undefined;
  readonly readOnly?: boolean | undefined;
  readonly minRows?: number | undefined;
  /** Maximum number of characters. Undefined: the server decides. */
  readonly maxLength?: number | undefined;
  /** The problems that the server found, which are marked at their place. */
  readonly problems?: readonly JsonProblem[] | undefined;
}

/** A field for JSON. The module of the editor is loaded on demand. `error`: the problem of the text, or whether it is invalid. */
export function JsonEditor({ error = false, ...props }: Omit<JsonEditorProps, "isInvalid"> & { readonly error?: string | boolean | undefined }) {
  return (
    <Stack gap={4}>
      <Suspense fallback={<LoadingState label="Loading the editor" />}>
        <CodeEditor {...props} isInvalid={error !== false && error !== ""} />
      </Suspense>
      {typeof error === "string" && error !== "" && <Text size="xs" c="red" role="alert" className="foreign">{error}</Text>}
    </Stack>
  );
}
