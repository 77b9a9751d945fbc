// The views of the page: their paths, keys, minimum roles and scopes.
import { v1 } from "folio-client";

export interface View {
  readonly path: string;
  readonly label: string;
  /** The key after `g` that opens the view. */
  readonly key: string;
  readonly role: v1.Role;
  /** The scopes of which a restricted token needs one. */
  readonly scopes: readonly v1.Scope[];
}

const { VIEWER, MEMBER, ADMIN } = v1.Role;
const { CONVERSATIONS, DOCUMENTS, DEFINITIONS, EXTRACTIONS, USAGE, ADMINISTRATION } = v1.Scope;

/** Each kind of items of the inbox has a scope of its own. */
export const INBOX_SCOPES: readonly v1.Scope[] = [CONVERSATIONS, EXTRACTIONS, DEFINITIONS];

export const VIEWS: readonly View[] = [
  { path: "/", label: "Documents", key: "d", role: VIEWER, scopes: [DOCUMENTS] },
  { path: "/search", label: "Search", key: "f", role: VIEWER, scopes: [DOCUMENTS] },
  { path: "/assistant", label: "Assistant", key: "q", role: VIEWER, scopes: [CONVERSATIONS] },
  { path: "/inbox", label: "Inbox", key: "i", role: MEMBER, scopes: INBOX_SCOPES },
  { path: "/schemas", label: "Schemas", key: "s", role: VIEWER, scopes: [DEFINITIONS] },
  { path: "/prompts", label: "Prompts", key: "p", role: VIEWER, scopes: [DEFINITIONS] },
  { path: "/tags", label: "Tags", key: "t", role: VIEWER, scopes: [DEFINITIONS] },
  { path: "/collections", label: "Collections", key: "c", role: VIEWER, scopes: [DEFINITIONS] },
  { path: "/dictionary", label: "Dictionary", key: "w", role: VIEWER, scopes: [DEFINITIONS] },
  { path: "/links", label: "Missing links", key: "m", role: VIEWER, scopes: [DOCUMENTS] },
  { path: "/stacks", label: "Stacks", key: "k", role: VIEWER, scopes: [EXTRACTIONS] },
  { path: "/batches", label: "Batches", key: "b", role: VIEWER, scopes: [EXTRACTIONS] },
  { path: "/usage", label: "Usage", key: "u", role: VIEWER, scopes: [USAGE] },
  { path: "/audit", label: "Audit log", key: "l", role: ADMIN, scopes: [ADMINISTRATION] },
  { path: "/administration", label: "Administration", key: "a", role: ADMIN, scopes: [ADMINISTRATION] },
];

/** Returns true if the path is the view's, or below it. */
export function isIn(view: View, path: string): boolean {
  if (view.path === "/") return path === "/" || path.startsWith("/documents");
  return path === view.path || path.startsWith(`${view.path}/`);
}

/** Maximum time between the two keys of a sequence, in milliseconds. */
const SEQUENCE_MS = 1_000;

/** The time at which `g` was pressed. Undefined: it was not. */
export type Pressed = number | undefined;

/** Returns the path that a key opens after `g`, and whether the next key continues a sequence. */
export function sequence(pressed: Pressed, key: string, now: number): { pressed: Pressed; path: string | undefined } {
  if (pressed === undefined || now - pressed > SEQUENCE_MS) {
    return { pressed: key === "g" ? now : undefined, path: undefined };
  }
  return { pressed: undefined, path: VIEWS.find((view) => view.key === key)?.path };
}

/** Returns true if a key press writes text, so that it is no shortcut. */
export function isWriting(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}
