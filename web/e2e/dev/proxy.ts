// Serves `web/dist` in front of a server without an embedded page, with the headers that the server sends for its page. For
// development: CI tests a binary that embeds the page.
import { readFile } from "node:fs/promises";
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, normalize } from "node:path";

const DIST = new URL("../../dist", import.meta.url).pathname;
const TYPES: Readonly<Record<string, string>> = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };
/** Headers of the server's page that the files get, too. */
const PAGE_HEADERS = ["content-security-policy", "x-content-type-options", "referrer-policy"];

async function answer(backend: string, headers: Readonly<Record<string, string>>, from: IncomingMessage, to: ServerResponse): Promise<void> {
  const { pathname } = new URL(from.url ?? "/", backend);
  const isNavigation = from.method === "GET" && (from.headers.accept ?? "").includes("text/html");
  const file = pathname.startsWith("/assets/") || extname(pathname) === ".svg" ? normalize(pathname) : isNavigation ? "/index.html" : undefined;
  if (file === undefined) return forward(backend, from, to);
  const body = await readFile(DIST + file);
  to.writeHead(200, { ...headers, "content-type": TYPES[extname(file)] ?? "application/octet-stream" }).end(body);
}

function forward(backend: string, from: IncomingMessage, to: ServerResponse): void {
  const { method, headers, url } = from;
  const sent = request(backend + (url ?? "/"), { method, headers }, (received) => {
    to.writeHead(received.statusCode ?? 502, received.headers);
    received.pipe(to);
  });
  sent.on("error", () => to.destroy());
  to.on("close", () => sent.destroy());
  from.pipe(sent);
}

/** Starts the proxy, and returns its address. */
export async function startProxy(backend: string): Promise<{ readonly url: string; readonly server: Server }> {
  const page = await fetch(backend);
  const headers = Object.fromEntries(PAGE_HEADERS.map((name) => [name, page.headers.get(name) ?? ""]));
  const server = createServer((from, to) => {
    answer(backend, headers, from, to).catch(() => to.writeHead(404).end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}
