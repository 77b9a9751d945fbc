// The parts of a PDF that contains several documents. No I/O.
import { v1 } from "folio-client";

/** Minimum and maximum number of parts of a split. */
const PARTS_MIN = 2;
const PARTS_MAX = 200;
/** Maximum length of the name of a document. */
export const NAME_MAX = 200;

/** A part as a person changes it. */
export interface SplitRow {
  readonly firstPage: number;
  readonly lastPage: number;
  /** Empty: the name of the PDF with the pages. */
  readonly name: string;
  readonly label: string;
  readonly reasons: readonly v1.SplitReason[];
  /** False: no document is made of the pages. */
  readonly isIncluded: boolean;
}

const { START, NUMBERING_RESTARTS, DOCUMENT_NUMBER, BLANK_PAGE_BEFORE, BOOKMARK } = v1.SplitReason;
const REASONS: Partial<Record<v1.SplitReason, string>> = {
  [START]: "first page of the file",
  [NUMBERING_RESTARTS]: "the numbering of pages restarts",
  [DOCUMENT_NUMBER]: "another document number",
  [BLANK_PAGE_BEFORE]: "blank page before",
  [BOOKMARK]: "bookmark",
};

/** Returns the reasons for which a part starts, and its number or title. */
export function reasonText({ reasons, label }: Pick<SplitRow, "reasons" | "label">): string {
  const texts = reasons.map((reason) => REASONS[reason]).filter((text) => text !== undefined);
  return [...texts, ...(label === "" ? [] : [label])].join(" · ");
}

export function rowsOf(parts: readonly v1.ProposedPart[]): SplitRow[] {
  return parts.map(({ firstPage, lastPage, name, label, reasons }) => ({ firstPage, lastPage, name, label, reasons, isIncluded: true }));
}

/** Returns the rows in which a row also contains the pages of the next one. */
export function joined(rows: readonly SplitRow[], index: number): SplitRow[] {
  const [row, next] = [rows[index], rows[index + 1]];
  if (row === undefined || next === undefined) return [...rows];
  return [...rows.slice(0, index), { ...row, lastPage: next.lastPage }, ...rows.slice(index + 2)];
}

/** Returns the rows in which a page starts a new part. A page that starts a part, or is in none, changes nothing. */
export function divided(rows: readonly SplitRow[], page: number): SplitRow[] {
  return rows.flatMap((row) => {
    if (page <= row.firstPage || page > row.lastPage) return [row];
    return [{ ...row, lastPage: page - 1 }, { ...row, firstPage: page, name: "", label: "", reasons: [] }];
  });
}

/** Returns the parts of the request. */
export function partsOf(rows: readonly SplitRow[]): { firstPage: number; lastPage: number; name: string }[] {
  return rows.filter(({ isIncluded }) => isIncluded).map(({ firstPage, lastPage, name }) => ({ firstPage, lastPage, name: name.trim() }));
}

/** Returns the reason for which the server would refuse the parts. Undefined: it would not. */
export function splitProblem(rows: readonly SplitRow[]): string | undefined {
  const parts = partsOf(rows);
  if (parts.length < PARTS_MIN || parts.length > PARTS_MAX) return `A split makes ${PARTS_MIN} to ${PARTS_MAX} documents.`;
  if (parts.some(({ name }) => [...name].length > NAME_MAX)) return `A name has at most ${NAME_MAX} characters.`;
  return undefined;
}
