// The tools of an MCP server that agents may call, in a form. No I/O.
import { v1 } from "folio-client";

const { ALLOWED, CHANGED } = v1.McpToolState;

/** Maximum number of allowed tools of a server. */
export const TOOLS_MAX = 64;

export type Access = "none" | "read" | "write";

/** Returns the access of the offered tools by their names. A tool whose text changed must be allowed again. */
export function accessOf(server: Pick<v1.McpServer, "allowedTools">, offered: readonly v1.McpTool[]): ReadonlyMap<string, Access> {
  const allowed = new Map(server.allowedTools.map(({ name, isWrite }) => [name, isWrite]));
  return new Map(offered.map(({ name, state }) => [name, state === ALLOWED ? (allowed.get(name) === true ? "write" : "read") : "none"]));
}

/** Returns the tools to allow, with the digests of their texts. Tools that the server no longer offers are left out. */
export function allowedTools(offered: readonly v1.McpTool[], access: ReadonlyMap<string, Access>): Pick<v1.AllowedMcpTool, "name" | "isWrite" | "digest">[] {
  return offered.flatMap(({ name, digest }) => {
    const chosen = access.get(name) ?? "none";
    return chosen === "none" ? [] : [{ name, digest, isWrite: chosen === "write" }];
  });
}

/** Returns the note about a tool. Empty: none. */
export function toolNote({ state, readOnlyHint }: Pick<v1.McpTool, "state" | "readOnlyHint">, access: Access): string {
  if (state === CHANGED && access === "none") return "The server changed the text of this tool. Agents cannot call it until you allow it again.";
  if (access === "read" && !readOnlyHint) return "The server does not state that this tool only reads. Its calls run without approval.";
  return "";
}
