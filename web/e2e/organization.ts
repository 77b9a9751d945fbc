// Organizations with users and documents for the suites, made by the API.
import { connect, v1, type Client, type FileInput } from "folio-client";
import { readFile } from "node:fs/promises";
import type { Browser } from "playwright-core";
import { inject } from "vitest";

export type Api = Client<FileInput>;

export const PASSWORD = "a long password";
const INVOICE = new URL("../../samples/invoice.pdf", import.meta.url).pathname;

/** A user that signs in with a password. */
export interface Person {
  readonly userId: string;
  readonly email: string;
}

/** An organization of its own, so that suites do not see each other. */
export interface Organization {
  readonly id: string;
  /** The token of its administrator. */
  readonly token: string;
  readonly api: Api;
}

export async function newOrganization(name: string): Promise<Organization> {
  const { api: server, token } = inject("servers");
  const platform = connect({ server, token });
  const made = await platform.organizations.createOrganization({ organization: { name }, adminName: "Ada" });
  platform.close();
  return { id: made.organization?.organizationId ?? "", token: made.adminToken, api: connect({ server, token: made.adminToken }) };
}

/** Creates a user that is a member of organizations. */
export async function newPerson(organization: Organization, name: string, role: v1.Role): Promise<Person> {
  const { api: server, token } = inject("servers");
  const platform = connect({ server, token });
  const email = `${name.toLowerCase()}.${organization.id.slice(-12)}@example.com`;
  const { user } = await platform.users.createUser({ user: { email, name }, password: PASSWORD });
  platform.close();
  const userId = user?.userId ?? "";
  await organization.api.organizations.addMember({ member: { userId, name, role } });
  return { userId, email };
}

/** Uploads the sample invoice, and waits until its text is read. */
export async function uploadInvoice({ api }: Organization, name = "invoice.pdf"): Promise<v1.Document> {
  return api.waitForText((await api.upload(await readFile(INVOICE), { name })).documentId);
}

export async function uploadText({ api }: Organization, name: string, text: string): Promise<v1.Document> {
  return api.waitForText((await api.upload(new TextEncoder().encode(text), { name })).documentId);
}

/** Uploads HTML that is printed as a PDF, and returns the id of the document. */
export async function uploadPdf(browser: Browser, { api }: Organization, name: string, html: string): Promise<string> {
  const page = await browser.newPage();
  await page.setContent(html);
  const file = await page.pdf({ format: "A5" });
  await page.close();
  const { documentId } = await api.upload(file, { name });
  await api.waitForText(documentId);
  return documentId;
}

const SCHEMA = {
  type: "object",
  additionalProperties: false,
  required: ["invoice_number", "total", "items"],
  properties: {
    invoice_number: { type: "string", description: "The number of the invoice" },
    total: { type: "number", description: "The amount to pay" },
    items: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["description", "quantity"],
        properties: { description: { type: "string" }, quantity: { type: "integer" } },
      },
    },
  },
};

/** Creates a schema and a prompt for the answers of the scripted model. */
export async function newPrompt({ api }: Organization, name = "Invoice data"): Promise<v1.Prompt> {
  const responseFormatJson = JSON.stringify({ type: "json_schema", json_schema: { name: "invoice", strict: true, schema: SCHEMA } });
  const { schema } = await api.schemas.createSchema({ schema: { name: "Invoice", responseFormatJson } });
  const { prompt } = await api.prompts.createPrompt({ prompt: { name, content: "Extract the data of the invoice.", schemaRevid: schema?.schemaRevid ?? "" } });
  if (prompt === undefined) throw new Error("the server returned no prompt");
  return prompt;
}

/** Opens a gate of the model endpoint. */
export async function openGate(gate: string): Promise<void> {
  const { ok, status } = await fetch(`${inject("servers").model}/sim/gates/${gate}`, { method: "POST" });
  if (!ok) throw new Error(`the model endpoint answered ${status}`);
}
