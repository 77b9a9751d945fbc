// Drives a server with every method of DocRouter's published client for TypeScript, and prints the outcome of each method as a JSON object:
// "ok", or the status with which the server refused it.
//
// Arguments: the folder node_modules with the client, the URL of the server, the id of an organization, the name of a PDF file. The
// variable FOLIO_TOKEN contains the token of a platform administrator in the organization, FOLIO_ACCOUNT_TOKEN an account token of one.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const [packages, baseURL, organizationId, file] = process.argv.slice(2);
const { DocRouterAccount, DocRouterOrg } = createRequire(join(packages, "client.js"))("@docrouter/sdk");

const org = new DocRouterOrg({ baseURL, orgToken: process.env.FOLIO_TOKEN, organizationId });
const account = new DocRouterAccount({ baseURL, accountToken: process.env.FOLIO_ACCOUNT_TOKEN });
// Model calls belong to an organization, which the token of an organization names.
const accountInOrganization = new DocRouterAccount({ baseURL, accountToken: process.env.FOLIO_TOKEN });

const outcomes = {};

/** Calls a method, such as "org.listTags". A client other than that of the name may carry it. */
async function call(name, arguments_ = [], client = undefined) {
  const [kind, method] = name.split(".");
  const target = client ?? (kind === "org" ? org : account);
  const result = await target[method](...arguments_);
  outcomes[name] = "ok";
  return result;
}

/** Calls a method that the server does not have, and records the status. */
async function unserved(name, ...arguments_) {
  const [kind, method] = name.split(".");
  try {
    await (kind === "org" ? org : account)[method](...arguments_);
    outcomes[name] = "ok";
  } catch (error) {
    outcomes[name] = String(error.status);
    assert.match(error.message, /^Not supported by this server/, name);
  }
}

async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return { status: error.status, message: error.message };
  }
  throw new Error("the call is not refused");
}

const format = {
  type: "json_schema",
  json_schema: {
    name: "invoice",
    strict: true,
    schema: {
      type: "object",
      properties: { total: { type: "number" } },
      required: ["total"],
      additionalProperties: false,
    },
  },
};

async function tags() {
  const tag = await call("org.createTag", [{ tag: { name: "TypeScript", color: "#AABBCC" } }]);
  assert.equal(tag.color, "#AABBCC");
  assert.deepEqual(await call("org.getTag", [{ tagId: tag.id }]), tag);
  const listed = await call("org.listTags", [{ nameSearch: "typescript" }]);
  assert.deepEqual([listed.total_count, listed.tags[0].id], [1, tag.id]);
  const updated = await call("org.updateTag", [{ tagId: tag.id, tag: { name: "Renamed" } }]);
  assert.deepEqual([updated.name, updated.color], ["Renamed", "#AABBCC"]);
  assert.equal((await call("org.deleteTag", [{ tagId: tag.id }])).message, "Tag deleted successfully");
  assert.deepEqual(await refusal(org.getTag({ tagId: tag.id })), { status: 404, message: "Tag not found" });
}

async function schemas() {
  const schema = await call("org.createSchema", [{ name: "TS invoice", response_format: format }]);
  const renamed = await call("org.updateSchema", [{ schemaId: schema.schema_id, schema: { name: "TS bill" } }]);
  assert.deepEqual([renamed.schema_revid, renamed.name], [schema.schema_revid, "TS bill"]);
  assert.equal((await call("org.getSchema", [{ schemaRevId: schema.schema_revid }])).name, "TS bill");
  const listed = await call("org.listSchemas", [{ nameSearch: "ts bill" }]);
  assert.equal(listed.schemas[0].schema_id, schema.schema_id);
  const versions = await call("org.listSchemaVersions", [{ schemaId: schema.schema_id }]);
  assert.deepEqual([versions.total_count, versions.skip], [1, 0]);
  const check = { schemaRevId: schema.schema_revid, data: { total: "x" } };
  const checked = await call("org.validateAgainstSchema", [check]);
  assert.deepEqual([checked.valid, checked.errors[0].path], [false, "total"]);
  return schema;
}

async function prompts(schema) {
  const { models } = await call("org.listLLMModels");
  const fields = { name: "TS prompt", content: "Read.", schema_id: schema.schema_id, model: models[0] };
  const created = await call("org.createPrompt", [{ prompt: fields }]);
  const prompt = await call("org.updatePrompt", [
    { promptId: created.prompt_id, prompt: { ...fields, content: "Read the total." } },
  ]);
  assert.deepEqual([prompt.prompt_version, prompt.model], [2, models[0]]);
  assert.equal((await call("org.getPrompt", [{ promptRevId: created.prompt_revid }])).prompt_version, 1);
  const listed = await call("org.listPrompts", [{ nameSearch: "ts prompt" }]);
  assert.equal(listed.prompts[0].prompt_revid, prompt.prompt_revid);
  const versions = await call("org.listPromptVersions", [{ promptId: prompt.prompt_id }]);
  assert.deepEqual(versions.prompts.map((version) => version.prompt_version), [2, 1]);
  return prompt;
}

async function documents() {
  const bytes = readFileSync(file);
  const content = `data:application/pdf;base64,${bytes.toString("base64")}`;
  const uploaded = await call("org.uploadDocuments", [{ documents: [{ name: "typescript.pdf", content }] }]);
  const documentId = uploaded.documents[0].document_id;
  const end = Date.now() + 60_000;
  for (;;) {
    const { documents: found } = await call("org.listDocuments", [{ nameSearch: "typescript" }]);
    assert.equal(found[0].id, documentId);
    if (["ocr_completed", "llm_completed"].includes(found[0].state)) break;
    assert.ok(Date.now() < end, found[0].state);
    await sleep(200);
  }
  const found = await call("org.getDocument", [{ documentId, fileType: "original" }]);
  assert.deepEqual(Buffer.from(found.content), bytes);
  await call("org.updateDocument", [{ documentId, documentName: "renamed.pdf", metadata: { a: "b" } }]);
  assert.match(await call("org.getOCRText", [{ documentId }]), /INV-2026-0417/);
  assert.match(await org.getOCRText({ documentId, pageNum: 1 }), /INV-2026-0417/);
  assert.equal((await call("org.getOCRMetadata", [{ documentId }])).n_pages, 1);
  assert.equal((await call("org.getOCRBlocks", [{ documentId }]))[0].BlockType, "PAGE");
  return documentId;
}

/** The cases of DocRouter's suite about documents with tags and filters. A PDF that no reader opens is stored as well. */
async function taggedDocuments() {
  const bytes = Buffer.from("%PDF-1.4\n%%EOF\n");
  const content = bytes.toString("base64");
  const tag = await org.createTag({ tag: { name: "Suite", color: "#00FF00" } });
  const { documents: uploaded } = await org.uploadDocuments({
    documents: [
      { name: "suite-one.pdf", content, metadata: { type: "invoice" }, tag_ids: [tag.id] },
      { name: "suite-two.pdf", content: `data:application/pdf;base64,${content}` },
    ],
  });
  const described = uploaded.map((found) => [found.document_name, found.tag_ids, found.metadata]);
  assert.deepEqual(described, [["suite-one.pdf", [tag.id], { type: "invoice" }], ["suite-two.pdf", [], {}]]);
  const [one, two] = uploaded.map((found) => found.document_id);
  const found = async (filter) => (await org.listDocuments(filter)).documents.map((document) => document.id);
  assert.deepEqual(await found({ metadataSearch: "type=invoice" }), [one]);
  assert.deepEqual(await found({ tagIds: tag.id }), [one]);
  const page = await org.listDocuments({ nameSearch: "suite-", skip: 1, limit: 1 });
  assert.deepEqual([page.skip, page.total_count, page.documents.length], [1, 2, 1]);
  const metadata = { status: "reviewed", reviewer: "Admin" };
  await org.updateDocument({ documentId: two, tagIds: [tag.id], metadata });
  for (const fileType of ["original", "pdf"]) {
    const document = await org.getDocument({ documentId: two, fileType });
    assert.deepEqual([document.id, document.document_name], [two, "suite-two.pdf"]);
    assert.deepEqual([document.tag_ids, document.metadata], [[tag.id], metadata]);
    assert.deepEqual(Buffer.from(document.content), bytes);
  }
  for (const documentId of [one, two]) {
    await org.deleteDocument({ documentId });
    assert.equal((await refusal(org.getDocument({ documentId, fileType: "original" }))).status, 404);
  }
  await org.deleteTag({ tagId: tag.id });
  assert.equal((await refusal(org.runLLM({ documentId: "nonexistent", promptRevId: "nonexistent" }))).status, 404);
}

async function results(documentId, { prompt_revid: promptRevId, prompt_id: promptId }) {
  const run = await call("org.runLLM", [{ documentId, promptRevId, force: true }]);
  assert.deepEqual([run.status, run.result], ["success", { total: 957 }]);
  const found = await call("org.getLLMResult", [{ documentId, promptRevId, fallback: false }]);
  assert.deepEqual([found.prompt_id, found.llm_result], [promptId, { total: 957 }]);
  const update = { documentId, promptId: promptRevId, result: { total: 1.5 }, isVerified: true };
  const edited = await call("org.updateLLMResult", [update]);
  assert.deepEqual([edited.updated_llm_result, edited.is_edited, edited.is_verified], [{ total: 1.5 }, true, true]);
  assert.ok(await call("org.downloadAllLLMResults", [{ documentId }]));
  assert.equal((await call("org.deleteLLMResult", [{ documentId, promptId: promptRevId }])).status, "success");
}

async function chat(name, client) {
  const request = { model: "scripted", messages: [{ role: "user", content: "hello" }] };
  const answer = await call(`${name}.runLLMChat`, [request], client);
  assert.equal(answer.choices[0].message.content, '{"total": 957.0}');
  const chunks = [];
  // Without a callback for errors, a failure is thrown.
  await call(`${name}.runLLMChatStream`, [request, (chunk) => chunks.push(chunk)], client);
  assert.equal(chunks.at(-1).done, true);
  assert.equal(chunks.map((chunk) => chunk.chunk).join(""), '{"total": 957.0}');
}

async function accounts() {
  const own = await call("account.listUsers", [{ search_name: "root@" }]);
  assert.equal(own.total_count, 1);
  const user = await call("account.createUser", [
    { email: "sdk@example.com", name: "SDK", password: "a SECRET password" },
  ]);
  assert.equal((await call("account.getUser", [user.id])).email, "sdk@example.com");
  assert.equal((await call("account.updateUser", [user.id, { name: "Renamed" }])).name, "Renamed");
  assert.deepEqual(await refusal(account.getUser("none")), { status: 404, message: "User not found" });

  const organization = await call("account.createOrganization", [{ name: "From SDK", type: "team" }]);
  assert.deepEqual(organization.members, [{ user_id: own.users[0].id, role: "admin" }]);
  assert.equal((await call("account.getOrganization", [organization.id])).name, "From SDK");
  const listed = await call("account.listOrganizations", [{ nameSearch: "from sdk" }]);
  assert.deepEqual(listed.organizations.map((found) => found.id), [organization.id]);
  assert.ok(organization.created_at && organization.updated_at && organization.type === "team");
  const searched = await account.listOrganizations({ userId: own.users[0].id, nameSearch: "From", skip: 0, limit: 10 });
  assert.deepEqual([searched.total_count, searched.skip], [1, 0]);
  const named = await account.listOrganizations({ organizationId: organization.id, skip: 0, limit: 10 });
  assert.deepEqual(named.organizations.map((found) => found.id), [organization.id]);
  const members = [...organization.members, { user_id: user.id, role: "user" }];
  const updated = await call("account.updateOrganization", [organization.id, { name: "Renamed", members }]);
  assert.deepEqual([updated.name, updated.members.length], ["Renamed", 2]);
  const both = await account.listUsers({ skip: 0, limit: 5, organization_id: organization.id });
  assert.deepEqual([both.total_count, both.skip, both.users.length], [2, 0, 2]);
  const self = await account.listUsers({ user_id: own.users[0].id, search_name: "Root" });
  assert.deepEqual(self.users.map((found) => found.id), [own.users[0].id]);
  // An address is not changed by an update.
  const changed = { name: "Changed", email: "other@example.com", password: "another SECRET password" };
  const changedUser = await account.updateUser(user.id, changed);
  assert.deepEqual([changedUser.name, changedUser.email], ["Changed", "sdk@example.com"]);

  const token = await call("account.createAccountToken", [{ name: "sdk", lifetime: 86400 }]);
  assert.equal(token.lifetime, 86400);
  assert.ok((await call("account.getAccountTokens")).some((found) => found.id === token.id));
  const ofAccount = await call("account.getOrganizationFromToken", [token.token]);
  const { organization_id, organization_name, organization_type } = ofAccount;
  assert.deepEqual([organization_id, organization_name, organization_type], [null, null, null]);
  await call("account.deleteAccountToken", [token.id]);
  assert.ok(!(await account.getAccountTokens()).some((found) => found.id === token.id));

  const request = { name: "sdk", lifetime: 30 };
  const scoped = await call("account.createOrganizationToken", [request, organization.id]);
  const resolved = await account.getOrganizationFromToken(scoped.token);
  assert.deepEqual([resolved.organization_id, resolved.organization_name], [organization.id, "Renamed"]);
  assert.deepEqual([scoped.organization_id, resolved.organization_type], [organization.id, "team"]);
  const inside = new DocRouterOrg({ baseURL, orgToken: scoped.token, organizationId: organization.id });
  assert.equal((await inside.listTags()).total_count, 0);
  assert.equal((await refusal(new DocRouterOrg({ baseURL, orgToken: scoped.token, organizationId }).listTags())).status, 401);
  const tokens = await call("account.getOrganizationTokens", [organization.id]);
  assert.ok(tokens.some((found) => found.id === scoped.id));
  await call("account.deleteOrganizationToken", [scoped.id, organization.id]);
  const left = await account.getOrganizationTokens(organization.id);
  assert.ok(!left.some((found) => found.id === scoped.id));

  await call("account.deleteOrganization", [organization.id]);
  assert.equal((await refusal(account.getOrganization(organization.id))).status, 404);
  const own_of_user = await account.listOrganizations({ nameSearch: "sdk@example.com" });
  await account.deleteOrganization(own_of_user.organizations[0].id);
  await call("account.deleteUser", [user.id]);
  assert.equal((await refusal(account.getUser(user.id))).status, 404);
  const { models } = await call("account.listLLMModels", [{}], accountInOrganization);
  assert.ok(models.some((model) => model.litellm_model === "scripted"));
}

/** Drives the methods of payments, which follow model calls. An account acts in the organization of its argument. */
async function payments(kind, ...first) {
  const client = kind === "org" ? org : accountInOrganization;
  const payment = (method, ...rest) => call(`${kind}.${method}`, [...first, ...rest], client);
  const end = Date.now() + 20_000;
  let before;
  // The usage of a call is recorded soon after its answer.
  for (;;) {
    before = (await payment("getCurrentUsage")).data;
    if (before.period_metered_usage > 0) break;
    assert.ok(Date.now() < end, JSON.stringify(before));
    await sleep(200);
  }
  assert.ok(before.remaining_included > 0, JSON.stringify(before));
  const added = await payment("addCredits", 10);
  assert.deepEqual([added.success, added.added, added.credits_added], [true, 10, 10]);
  const { data } = await client.getCurrentUsage(...first);
  assert.equal(data.granted_credits_remaining, before.granted_credits_remaining + 10);
  const config = await payment("getCreditConfig");
  assert.deepEqual([config.price_per_credit, config.currency], [0.01, "usd"]);
  const day = (offset) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
  const used = await payment("getUsageRange", { start_date: day(-1), end_date: day(1) });
  const sum = used.data_points.reduce((total, point) => total + point.spus, 0);
  assert.ok(sum > 0 && sum === used.total_spus, JSON.stringify(used));
}

async function providers() {
  const listed = (await call("account.listLLMProviders")).providers;
  const sim = listed.find((provider) => provider.litellm_models_available.includes("scripted"));
  assert.ok(sim.enabled && sim.litellm_models_enabled.includes("scripted"), JSON.stringify(listed));
  assert.ok("token" in sim && "token_created_at" in sim, JSON.stringify(sim));
  const unknown = account.setLLMProviderConfig("test-provider", { token: "key", enabled: true });
  assert.equal((await refusal(unknown)).status, 400);
  const unchanged = { litellm_models_enabled: sim.litellm_models_enabled };
  const changed = await call("account.setLLMProviderConfig", [sim.name, unchanged]);
  assert.equal(changed.message, "LLM provider config updated successfully");
  assert.deepEqual((await account.listLLMProviders()).providers, listed);
  const refused = await refusal(account.setLLMProviderConfig(sim.name, { litellm_models_enabled: ["none"] }));
  assert.deepEqual(refused, { status: 400, message: `Model 'none' is not available for provider '${sim.name}'` });
}

async function withoutServer() {
  const form = { name: "a", response_format: {} };
  await unserved("org.createForm", form);
  await unserved("org.listForms");
  await unserved("org.getForm", { formRevId: "a" });
  await unserved("org.updateForm", { formId: "a", form });
  await unserved("org.deleteForm", { formId: "a" });
  await unserved("org.listFormVersions", { formId: "a" });
  await unserved("org.submitForm", { documentId: "a", formRevId: "a", submission_data: {} });
  await unserved("org.getFormSubmission", { documentId: "a", formRevId: "a" });
  await unserved("org.deleteFormSubmission", { documentId: "a", formRevId: "a" });
  const purchase = { credits: 10, success_url: "https://example.com", cancel_url: "https://example.com" };
  for (const [kind, ...first] of [["org"], ["account", organizationId]]) {
    const payment = (method, ...rest) => unserved(`${kind}.${method}`, ...first, ...rest);
    for (const method of ["getCustomerPortal", "getSubscription", "activateSubscription", "cancelSubscription"]) {
      await payment(method);
    }
    await payment("purchaseCredits", purchase);
    await payment("createCheckoutSession", "plan");
  }
  await unserved("account.sendVerificationEmail", "a");
  await unserved("account.sendRegistrationVerificationEmail", "a");
  await unserved("account.verifyEmail", "a");
  await unserved("account.createAWSConfig", {});
  await unserved("account.getAWSConfig");
  await unserved("account.deleteAWSConfig");
  await unserved("account.createInvitation", { email: "a@example.com" });
  await unserved("account.getInvitations");
  await unserved("account.getInvitation", "a");
  await unserved("account.acceptInvitation", "a", {});
}

await tags();
const schema = await schemas();
const prompt = await prompts(schema);
const documentId = await documents();
await taggedDocuments();
await results(documentId, prompt);
await call("org.deletePrompt", [{ promptId: prompt.prompt_id }]);
await call("org.deleteSchema", [{ schemaId: schema.schema_id }]);
await call("org.deleteDocument", [{ documentId }]);
await chat("org");
await chat("account", accountInOrganization);
await payments("org");
await payments("account", organizationId);
await providers();
await accounts();
await withoutServer();

const internal = new Set(["constructor", "updateToken", "getHttpClient"]);
const methods = [["org", DocRouterOrg], ["account", DocRouterAccount]].flatMap(([kind, client]) =>
  Object.getOwnPropertyNames(client.prototype).filter((name) => !internal.has(name)).map((name) => `${kind}.${name}`),
);
assert.deepEqual(methods.filter((name) => !(name in outcomes)), []);
console.log(JSON.stringify(outcomes));
