// An MCP server with one tool, for the form that discovers and allows tools.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Returns the result of a request. */
function resultOf(method: string): unknown {
  if (method === "initialize") return { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "suite", version: "1" } };
  return { tools: [{ name: "create_ticket", description: "Creates a <b>ticket</b>.", inputSchema: { type: "object" } }] };
}

/** Starts the server. It records the credentials that it receives. */
export async function startMcpServer() {
  const credentials = new Set<string | undefined>();
  const server = createServer((request, response) => {
    credentials.add(request.headers.authorization);
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (text: string) => { body += text; });
    request.on("end", () => {
      const { id, method } = (body === "" ? {} : JSON.parse(body)) as { id?: unknown; method?: string };
      if (id === undefined || method === undefined) return void response.writeHead(202).end();
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result: resultOf(method) }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, credentials, close };
}
