// An MCP server with one tool, and a token endpoint at /token, for the forms that connect servers and allow tools.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Returns the result of a request. */
function resultOf(method: string): unknown {
  if (method === "initialize") return { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "suite", version: "1" } };
  return { tools: [{ name: "create_ticket", description: "Creates a <b>ticket</b>.", inputSchema: { type: "object" } }] };
}

/** Starts the server. It records the credentials that it receives, and the clients and forms of requests for tokens. */
export async function startMcpServer() {
  const credentials = new Set<string | undefined>();
  const tokenRequests: { readonly client: string; readonly form: URLSearchParams }[] = [];
  const server = createServer((request, response) => {
    const isTokenRequest = request.url === "/token";
    const authorization = request.headers.authorization;
    if (!isTokenRequest) credentials.add(authorization);
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (text: string) => { body += text; });
    request.on("end", () => {
      if (isTokenRequest) {
        const client = Buffer.from((authorization ?? "").replace("Basic ", ""), "base64").toString();
        tokenRequests.push({ client, form: new URLSearchParams(body) });
        response.writeHead(200, { "content-type": "application/json" });
        return void response.end(JSON.stringify({ access_token: "granted", token_type: "Bearer", expires_in: 3_600 }));
      }
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
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url: `${origin}/mcp`, tokenUrl: `${origin}/token`, credentials, tokenRequests, close };
}
