// The credential of an MCP server in its form: a token, or an OAuth client. No I/O.
import type { v1 } from "folio-client";

/** Maximum number of scopes of an OAuth client. */
export const SCOPES_MAX = 32;
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/;
const CLIENT_ID = /^[\x21-\x7e]{1,256}$/;

export interface McpServerValues {
  readonly name: string;
  readonly url: string;
  readonly credential: "token" | "oauth";
  /** Empty: the stored token is kept. */
  readonly token: string;
  readonly isTokenDeleted: boolean;
  readonly tokenUrl: string;
  readonly clientId: string;
  /** Empty: the stored secret is kept. */
  readonly clientSecret: string;
  /** The scopes, separated by white space. */
  readonly scopes: string;
}

/** The fields of a request. */
export interface McpServerFields {
  readonly name: string;
  readonly url: string;
  readonly token?: string;
  readonly oauth?: { readonly tokenUrl: string; readonly clientId: string; readonly clientSecret: string; readonly scopes: string[] };
}

type Server = Pick<v1.McpServer, "name" | "url" | "oauth">;

/** Returns the values of a form. `server`: undefined for a new server. */
export function valuesOf(server: Server | undefined): McpServerValues {
  const { tokenUrl = "", clientId = "", scopes = [] } = server?.oauth ?? {};
  return {
    name: server?.name ?? "", url: server?.url ?? "", credential: server?.oauth === undefined ? "token" : "oauth",
    token: "", isTokenDeleted: false, tokenUrl, clientId, clientSecret: "", scopes: scopes.join(" "),
  };
}

/** Returns the scopes of a text, or its problem. */
export function scopesOf(text: string): { readonly scopes: string[] } | { readonly problem: string } {
  const scopes = text.split(/\s+/).filter((scope) => scope !== "");
  if (scopes.length > SCOPES_MAX) return { problem: `A client requests at most ${SCOPES_MAX} scopes.` };
  const invalid = scopes.find((scope) => !SCOPE.test(scope));
  return invalid === undefined ? { scopes } : { problem: `“${invalid.slice(0, 40)}” is no scope: 1 to 128 visible ASCII characters without quotes and backslashes.` };
}

/** Returns true if the credential is complete. A new client needs a secret, and so does another token URL. */
export function isComplete(values: McpServerValues, server: Server | undefined): boolean {
  if (values.credential === "token") return true;
  const needsSecret = server?.oauth === undefined || server.oauth.tokenUrl !== values.tokenUrl.trim();
  return values.tokenUrl.trim() !== "" && CLIENT_ID.test(values.clientId) && "scopes" in scopesOf(values.scopes) && (!needsSecret || values.clientSecret !== "");
}

/** Returns the server of a request, and the names of the fields that an update changes. */
export function changeOf(values: McpServerValues, server: Server | undefined): { readonly fields: McpServerFields; readonly paths: string[] } {
  const { name, credential, isTokenDeleted, clientId, clientSecret } = values;
  const common = { name, url: values.url.trim() };
  const paths = ["name", "url"];
  if (credential === "oauth") {
    const scopes = scopesOf(values.scopes);
    const oauth = { tokenUrl: values.tokenUrl.trim(), clientId, clientSecret, scopes: "scopes" in scopes ? scopes.scopes : [] };
    return { fields: { ...common, oauth }, paths: [...paths, "oauth"] };
  }
  const token = isTokenDeleted ? "" : values.token;
  if (token !== "" || isTokenDeleted) paths.push("token");
  // An unset client in the mask removes the stored one.
  else if (server?.oauth !== undefined) paths.push("oauth");
  return { fields: { ...common, token }, paths };
}
