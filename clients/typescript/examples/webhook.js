// Receives events of a webhook endpoint and prints those with a valid signature.
//
// Usage: FOLIO_WEBHOOK_SECRET=SECRET node webhook.js PORT (0: any port)
import { createServer } from "node:http";
import { InvalidSignature, verifyWebhook } from "folio-client";

/** An event is smaller. */
const BODY_BYTES = 64 * 1024;

const secret = process.env.FOLIO_WEBHOOK_SECRET ?? "";
const [port = "0"] = process.argv.slice(2);

const server = createServer(async (request, response) => {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > BODY_BYTES) return response.writeHead(413).end();
    chunks.push(chunk);
  }
  try {
    const event = verifyWebhook(secret, request.headers, Buffer.concat(chunks));
    // An event may be delivered several times: a program ignores an id that it has processed.
    console.log(`event: ${event.type}, ${event.id}`);
    response.writeHead(204).end();
  } catch (error) {
    if (!(error instanceof InvalidSignature)) throw error;
    response.writeHead(400).end();
  }
});
server.listen(Number(port), "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object") console.log(`listening on http://127.0.0.1:${address.port}/`);
});
