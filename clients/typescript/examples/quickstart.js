// Uploads a file, lets the agent create a prompt with approvals, and extracts the data of the file.
//
// Usage: FOLIO_SERVER=HOST:PORT FOLIO_TOKEN=TOKEN node quickstart.js FILE
import { connect, FolioError, v1 } from "folio-client";

const MESSAGE = "create a schema and a prompt for documents like this and extract";

const [file] = process.argv.slice(2);
if (file === undefined) {
  console.error("usage: FOLIO_SERVER=HOST:PORT FOLIO_TOKEN=TOKEN node quickstart.js FILE");
  process.exit(2);
}
const { FOLIO_SERVER: server = "127.0.0.1:8080", FOLIO_TOKEN: token = "" } = process.env;
const client = connect({ server, token });

/**
 * Approves each call that this user may approve; a program shows the call to a person here.
 * @type {import("folio-client").Approver}
 */
function approve(approval) {
  const [rule, roles] = [approval.rule || "none", approval.roles.join(", ") || "any"];
  const excluded = approval.isRequesterExcluded ? "yes" : "no";
  console.log(`waits: ${approval.tool}; rule: ${rule}; roles: ${roles}; requester excluded: ${excluded}`);
  return approval.mayApprove ? "approve" : "leave";
}

try {
  const { documentId } = await client.upload(file, {
    progress: (sent, size) => console.log(`sent: ${sent} of ${size} bytes`),
  });
  const document = await client.waitForText(documentId);
  console.log(`read: ${document.name}, ${document.pages} page(s)`);

  const turn = client.chat(MESSAGE, { documentIds: [documentId], approve });
  for await (const { kind } of turn) {
    if (kind.case === "toolResult") console.log(`ran: ${kind.value.name}, ${v1.CallStatus[kind.value.status]}`);
  }
  const answer = await turn.completed();
  console.log(`answer: ${answer.text}`);

  const prompt = answer.workingState?.promptRevid ?? "";
  const extraction = await client.extract(documentId, prompt);
  console.log(`extracted: ${extraction.originalJson}`);

  const { jobId } = await client.batch(prompt, { documentIds: [documentId] });
  await client.waitForJob(jobId, (job) => console.log(`batch: ${job.doneItems} of ${job.totalItems} done`));
  for await (const item of client.iterate(client.jobs.listJobItems, { jobId })) {
    console.log(`item: ${item.subject}, ${item.resultJson}`);
  }

  await client.documents.getDocument({ documentId: "doc_unknown" });
} catch (error) {
  if (!(error instanceof FolioError)) throw error;
  console.log(`error: ${error.code}, ${error.reason}`);
} finally {
  client.close();
}
