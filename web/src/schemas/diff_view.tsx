import { Code } from "@mantine/core";
import { diffLines } from "diff";
import { useMemo } from "react";

const COLORS = { added: "var(--mantine-color-green-light)", removed: "var(--mantine-color-red-light)" };

/** The lines that differ between two texts. */
export function DiffView({ before, after }: { readonly before: string; readonly after: string }) {
  const parts = useMemo(() => diffLines(before, after), [before, after]);
  return (
    <Code block className="foreign" aria-label="Changes">
      {parts.map(({ value, added, removed }, index) => {
        if (added) return <ins key={index} style={{ background: COLORS.added, textDecoration: "none" }}>{prefixed(value, "+ ")}</ins>;
        if (removed) return <del key={index} style={{ background: COLORS.removed, textDecoration: "none" }}>{prefixed(value, "- ")}</del>;
        return <span key={index}>{prefixed(value, "  ")}</span>;
      })}
    </Code>
  );
}

function prefixed(text: string, prefix: string): string {
  return text.replace(/^(?=.)/gm, prefix);
}
