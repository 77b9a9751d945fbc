import { ActionIcon, Group, Text, TextInput } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { useRef } from "react";
import { formatPercent } from "../format.js";
import { nextMatch, SEARCH_MAX, type PageMatches } from "./search.js";
import { nextZoom } from "./zoom.js";

interface ToolbarProps {
  readonly page: number;
  readonly pages: number;
  readonly zoom: number;
  readonly search: string;
  readonly matches: readonly PageMatches[];
  readonly onPage: (page: number) => void;
  readonly onZoom: (zoom: number) => void;
  readonly onSearch: (text: string) => void;
}

/** Page, zoom and search of the page pane. Keys: + and - zoom, Ctrl F searches. */
export function Toolbar({ page, pages, zoom, search, matches, onPage, onZoom, onSearch }: ToolbarProps) {
  const input = useRef<HTMLInputElement>(null);
  useHotkeys([
    ["mod+F", () => input.current?.select()],
    ["+", () => onZoom(nextZoom(zoom, 1))],
    ["-", () => onZoom(nextZoom(zoom, -1))],
  ]);
  const count = matches.reduce((sum, match) => sum + match.count, 0);
  const step = (direction: 1 | -1) => {
    const next = nextMatch(matches, page, direction);
    if (next !== undefined) onPage(next);
  };
  return (
    <Group gap="xs" role="toolbar" aria-label="Pages" justify="space-between">
      <Group gap={4}>
        <Icon label="Previous page" onClick={() => onPage(page - 1)} disabled={page <= 1}>‹</Icon>
        <Text size="sm" role="status">{`${page} / ${pages}`}</Text>
        <Icon label="Next page" onClick={() => onPage(page + 1)} disabled={page >= pages}>›</Icon>
        <Icon label="Zoom out" onClick={() => onZoom(nextZoom(zoom, -1))}>−</Icon>
        <Text size="sm">{formatPercent(zoom)}</Text>
        <Icon label="Zoom in" onClick={() => onZoom(nextZoom(zoom, 1))}>+</Icon>
      </Group>
      <Group gap={4} role="search">
        <TextInput
          ref={input}
          size="xs"
          type="search"
          aria-label="Search in the document"
          placeholder="Search in the document"
          maxLength={SEARCH_MAX}
          value={search}
          onChange={(event) => onSearch(event.currentTarget.value)}
          onKeyDown={(event) => {
            // Enter also ends the composition of CJK text.
            if (event.key !== "Enter" || event.nativeEvent.isComposing) return;
            event.preventDefault();
            step(event.shiftKey ? -1 : 1);
          }}
        />
        {search.trim() !== "" && <Text size="xs" c="dimmed" role="status">{`${count} matches`}</Text>}
        <Icon label="Next match" onClick={() => step(1)} disabled={matches.length === 0}>↓</Icon>
      </Group>
    </Group>
  );
}

interface IconProps {
  readonly label: string;
  readonly children: string;
  readonly disabled?: boolean;
  readonly onClick: () => void;
}

function Icon({ label, children, disabled = false, onClick }: IconProps) {
  return <ActionIcon variant="subtle" color="gray" aria-label={label} onClick={onClick} disabled={disabled}>{children}</ActionIcon>;
}
