import { Button, Group, Stack, Text, UnstyledButton } from "@mantine/core";
import type { v1 } from "folio-client";
import { useEffect, useMemo, useState } from "react";
import { EmptyState, MoreButton, QueryView } from "../states/states.js";
import { hasPageImages, useFocus } from "./focus.js";
import { headingBoxes, outlineOf, pagesLabel, tableLabel, type OutlineItem } from "./outline.js";
import { usePageWords } from "./queries.js";
import { useSection, useStructure, type Structure } from "./structure_queries.js";

/** Number of sections that are shown at first, and with each press of the button below them. */
const SHOWN = 200;
const INDENT_PX = 12;
const INDENTS_MAX = 8;

/** The sections of the document with their tables. A section jumps to its heading, and shows its text on demand. */
export function OutlinePanel({ document }: { readonly document: v1.Document }) {
  const { documentId, textGeneration, stateReason } = document;
  const structure = useStructure(documentId, textGeneration);
  if (textGeneration === "") return <EmptyState title="No outline" text={stateReason || "The text is not available yet."} />;
  return (
    <QueryView query={structure} empty={({ sections }) => (sections.length === 0 ? <EmptyState title="No outline" text="The document has no sections." /> : undefined)}>
      {(data) => <Outline document={document} structure={data} />}
    </QueryView>
  );
}

function Outline({ document, structure }: { readonly document: v1.Document; readonly structure: Structure }) {
  const { documentId, textGeneration, mediaType } = document;
  const { sections, tables, nextPage } = structure;
  const outline = useMemo(() => outlineOf(sections, tables), [sections, tables]);
  const [shown, setShown] = useState(SHOWN);
  // The section whose heading is highlighted, until its button loses the focus.
  const [target, setTarget] = useState<v1.DocumentSection>();
  const { setHighlight, goTo } = useFocus();
  const words = usePageWords(documentId, textGeneration, target?.firstPage ?? 1, target !== undefined);
  useEffect(() => {
    if (target === undefined || words.data === undefined) return undefined;
    setHighlight({ page: target.firstPage, boxes: headingBoxes(words.data.words, target.firstWord, target.title) });
    return () => setHighlight(undefined);
  }, [target, words.data, setHighlight]);
  const onJump = (section: v1.DocumentSection | undefined) => {
    setTarget(section);
    if (section !== undefined) goTo(section.firstPage);
  };
  return (
    <>
      <Stack gap={2} role="list" aria-label="Outline">
        {outline.slice(0, shown).map((item) => (
          <OutlineEntry key={item.section.sectionId} item={item} hasImages={hasPageImages(mediaType)} onJump={onJump} />
        ))}
      </Stack>
      {outline.length > shown && <MoreButton onClick={() => setShown(shown + SHOWN)} loading={false} />}
      {nextPage !== 0 && <Text size="xs" c="dimmed" role="status">{`The outline ends before page ${nextPage}.`}</Text>}
    </>
  );
}

interface OutlineEntryProps {
  readonly item: OutlineItem;
  /** True if the pages of the document have images, so that the section can jump to them. */
  readonly hasImages: boolean;
  /** Undefined: no heading is highlighted. */
  readonly onJump: (section: v1.DocumentSection | undefined) => void;
}

function OutlineEntry({ item, hasImages, onJump }: OutlineEntryProps) {
  const { section, depth, label, tables } = item;
  const [isOpen, setOpen] = useState(false);
  const { setHighlight, goTo } = useFocus();
  const showTable = ({ page, boundingBox }: v1.DocumentTable) => {
    if (boundingBox !== undefined) setHighlight({ page, boxes: [boundingBox] });
    goTo(page);
  };
  return (
    <Stack gap={2} role="listitem" pl={Math.min(depth, INDENTS_MAX) * INDENT_PX}>
      <Group gap={4} wrap="nowrap">
        {hasImages ? (
          <UnstyledButton flex={1} onClick={() => onJump(section)} onBlur={() => onJump(undefined)} aria-label={`Go to ${label}`}>
            <Text size="sm" className="foreign" lineClamp={2}>{label}</Text>
          </UnstyledButton>
        ) : <Text size="sm" className="foreign" lineClamp={2} flex={1}>{label}</Text>}
        <Text size="xs" c="dimmed" flex="none">{pagesLabel(section)}</Text>
        <Button size="compact-xs" variant="subtle" color="gray" flex="none" aria-expanded={isOpen} aria-label={`Text of ${label}`} onClick={() => setOpen(!isOpen)}>Text</Button>
      </Group>
      {hasImages && tables.length > 0 && (
        <Group gap={4}>
          {tables.map((table) => (
            <Button key={`${table.page}-${table.firstWord}`} size="compact-xs" variant="default" onClick={() => showTable(table)} onBlur={() => setHighlight(undefined)}>{tableLabel(table)}</Button>
          ))}
        </Group>
      )}
      {isOpen && <SectionText sectionId={section.sectionId} label={label} />}
    </Stack>
  );
}

/** The text of a section. The rest of a long one is read on demand. */
function SectionText({ sectionId, label }: { readonly sectionId: string; readonly label: string }) {
  const section = useSection(sectionId);
  return (
    <QueryView query={section}>
      {({ pages }) => (
        <Stack gap={4} pl="sm" component="section" aria-label={`Section ${label}`}>
          {pages.flatMap(({ pages: texts }) => texts).map(({ number, text }, index) => (
            <Text key={index} component="pre" size="xs" className="foreign" m={0} ff="inherit" title={`Page ${number}`}>{text}</Text>
          ))}
          {section.hasNextPage && <MoreButton onClick={() => void section.fetchNextPage()} loading={section.isFetchingNextPage} />}
        </Stack>
      )}
    </QueryView>
  );
}
