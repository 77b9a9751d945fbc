// The outline of a document. No I/O.
import type { v1 } from "folio-client";
import type { Box } from "./focus.js";

/** A section with its tables. */
export interface OutlineItem {
  readonly section: v1.DocumentSection;
  /** Number of sections that contain this one. */
  readonly depth: number;
  readonly label: string;
  readonly tables: readonly v1.DocumentTable[];
}

/** Returns the sections in their order. A section whose parent is unknown is at the top. */
export function outlineOf(sections: readonly v1.DocumentSection[], tables: readonly v1.DocumentTable[]): OutlineItem[] {
  const depths = new Map<string, number>();
  const tablesOf = new Map<string, v1.DocumentTable[]>();
  for (const table of tables) tablesOf.set(table.sectionId, [...(tablesOf.get(table.sectionId) ?? []), table]);
  return sections.map((section) => {
    const depth = (depths.get(section.parentSectionId) ?? -1) + 1;
    depths.set(section.sectionId, depth);
    return { section, depth, label: labelOf(section, sections.length), tables: tablesOf.get(section.sectionId) ?? [] };
  });
}

function labelOf({ level, title }: v1.DocumentSection, sections: number): string {
  if (level > 0) return title || "Untitled section";
  return sections === 1 ? "Whole document" : "Before the first heading";
}

/** Returns the pages of a section, such as `p. 2–5`. */
export function pagesLabel({ firstPage, lastPage }: Pick<v1.DocumentSection, "firstPage" | "lastPage">): string {
  return lastPage > firstPage ? `p. ${firstPage}–${lastPage}` : `p. ${firstPage}`;
}

/** Returns the size of a table with its page, such as `Table, 3 × 4, p. 2`. */
export function tableLabel({ rows, page }: v1.DocumentTable): string {
  return `Table, ${rows.length} × ${rows[0]?.cells.length ?? 0}, p. ${page}`;
}

/**
 * Returns the boxes of the words of a heading: those that its title consists of, from the first word on. A bookmark of a PDF may have
 * another text than the page; then the box of the first word is returned.
 */
export function headingBoxes(words: readonly Pick<v1.PageWord, "text" | "boundingBox">[], firstWord: number, title: string): Box[] {
  let rest = compact(title);
  const boxes: Box[] = [];
  for (const { text, boundingBox } of words.slice(firstWord)) {
    const word = compact(text);
    const isPart = rest !== "" && (rest.startsWith(word) || word.startsWith(rest));
    if (!isPart && boxes.length > 0) break;
    if (boundingBox !== undefined) boxes.push(boundingBox);
    if (!isPart) break;
    rest = rest.slice(word.length);
  }
  return boxes;
}

function compact(text: string): string {
  return text.normalize("NFKC").toLowerCase().replace(/\s+/g, "");
}
