import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { changed, formatOf, newProperty, propertiesOf, schemaIn, withProperties, withSchema } from "../src/schemas/properties.js";
import { promptFilter } from "../src/prompts/prompts_view.js";
import { choose, renderPage, SESSION } from "./page.js";

const SCHEMA = { type: "object", properties: { seller: { type: "string", description: "d" }, kind: { enum: ["a"] }, items: { type: "array", items: { type: "object", properties: { price: { type: "number" } } } } } };

test("the visual editor reads properties, and leaves unknown types unchanged", () => {
  const properties = propertiesOf(SCHEMA);
  expect(properties.map(({ name, kind }) => [name, kind])).toEqual([["seller", "text"], ["kind", undefined], ["items", "list of groups"]]);
  const same = withProperties(SCHEMA, properties);
  expect(same).toEqual({ ...SCHEMA, required: ["seller", "kind", "items"], additionalProperties: false });
});

test("a changed property keeps the others, and a new one has a free name", () => {
  const [seller, kind, items] = propertiesOf(SCHEMA);
  if (seller === undefined || kind === undefined || items === undefined) throw new Error("missing");
  expect(changed(seller, { kind: "date" }).node).toEqual({ type: "string", format: "date", description: "d" });
  expect(changed(seller, { description: "" }).node).toEqual({ type: "string" });
  const nested = changed(items, { nested: { type: "object", properties: {} } });
  expect(nested.node).toEqual({ type: "array", items: { type: "object", properties: {} } });
  expect(newProperty([seller, { ...kind, name: "field_3" }, items]).name).toBe("field_4");
});

test("a response format keeps its other members, and hostile text has no schema", () => {
  const format = formatOf("my schema/1", { type: "object" });
  expect(JSON.parse(withSchema(format, { a: 1 }))).toMatchObject({ type: "json_schema", json_schema: { name: "my_schema_1", strict: true, schema: { a: 1 } } });
  for (const text of ["", "[]", "null", '{"json_schema":[]}', '{"json_schema":{"schema":7}}']) expect(schemaIn(text)).toBeUndefined();
});

test("a schema is created with a field", async () => {
  const created: v1.CreateSchemaRequest[] = [];
  const { user } = renderPage({
    schema: {
      validateSchema: () => ({ valid: true }),
      createSchema: (request) => { created.push(request); return { schema: { schemaId: "sch_1" } }; },
      getSchemaRevision: () => ({}),
      listSchemas: () => ({}),
    },
  }, "/schemas/new");
  await user.type(await screen.findByLabelText("Name"), "Invoice");
  await user.click(screen.getByRole("button", { name: "Add a field" }));
  await user.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(created).toHaveLength(1));
  expect(created[0]?.schema?.name).toBe("Invoice");
  expect(schemaIn(created[0]?.schema?.responseFormatJson ?? "")).toMatchObject({ properties: { field_1: { type: "string" } }, required: ["field_1"] });
  await waitFor(() => expect(window.location.pathname).toBe("/schemas/sch_1"));
});

test("a schema shows violations, differences and prompts", async () => {
  const stored = { schemaId: "sch_1", schemaRevid: "sch_1.2", revision: 2, name: "Invoice", etag: "e" };
  const revision = (number: number, schema: object) => ({ schemaId: "sch_1", schemaRevid: `sch_1.${number}`, revision: number, name: "Invoice", responseFormatJson: formatOf("x", schema as never) });
  const filters: string[] = [];
  const { user } = renderPage({
    schema: {
      getSchemaRevision: () => ({ schemaRevision: revision(2, { a: 2 }) }),
      listSchemas: () => ({ schemas: [{ ...stored, responseFormatJson: formatOf("x", { a: 2 }) }] }),
      listSchemaRevisions: () => ({ schemaRevisions: [revision(2, { a: 2 }), revision(1, { a: "<b>1</b>" })] }),
      validateSchema: () => ({ violations: [{ path: "#/a", message: "is not allowed" }] }),
    },
    prompt: { listPrompts: ({ filter }) => { filters.push(filter); return { prompts: [{ promptId: "prm_1", name: "Read it", schemaRevid: "sch_1.1" }] }; } },
  }, "/schemas/sch_1");
  expect(await screen.findByText("#/a: is not allowed")).toBeTruthy();
  await user.click(screen.getByRole("tab", { name: "Revisions" }));
  const diff = await screen.findByLabelText("Changes");
  await waitFor(() => expect(diff.querySelector("del")?.textContent).toContain("<b>1</b>"));
  expect(diff.querySelector("b")).toBeNull();
  await user.click(screen.getByRole("tab", { name: "Prompts" }));
  expect(await screen.findByText("Read it")).toBeTruthy();
  expect(filters).toEqual(["schema:sch_1"]);
  expect(screen.getByText("Read it").closest("a")?.getAttribute("href")).toBe("/prompts?prompt=prm_1");
});

test("a prompt is changed with its version", async () => {
  const updates: v1.UpdatePromptRequest[] = [];
  const { user } = renderPage({
    prompt: {
      listPrompts: () => ({ prompts: [{ promptId: "prm_1", name: "Old", content: "Find it", etag: "e1", schemaRevid: "sch_9.1" }] }),
      updatePrompt: (request) => { updates.push(request); return {}; },
    },
    schema: { listSchemas: () => ({}) },
    model: { listModels: () => ({}) },
    tag: { listTags: () => ({}) },
  }, "/prompts");
  await user.click(await screen.findByRole("button", { name: "Edit Old" }));
  const name = await screen.findByLabelText(/^Name/);
  await user.clear(name);
  await user.type(name, "New");
  await user.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(updates.map(({ prompt }) => [prompt?.name, prompt?.etag, prompt?.schemaRevid])).toEqual([["New", "e1", "sch_9.1"]]));
});

test("prompts are filtered by the schema of the address, and the shown prompt is in the address", async () => {
  expect([promptFilter(' a "b" ', "sch_1"), promptFilter("", ""), promptFilter("", "x tag:y")]).toEqual(['name:"a \\"b\\"" schema:sch_1', "", ""]);
  const filters: string[] = [];
  const { user } = renderPage({
    prompt: {
      listPrompts: ({ filter, grid }) => {
        if (grid === undefined) filters.push(filter);
        return { prompts: [{ promptId: "prm_1", name: "Read", content: "<b>Find</b> it", etag: "e1" }] };
      },
    },
    schema: { listSchemas: () => ({ schemas: [{ schemaId: "sch_2", schemaRevid: "sch_2.1", name: "Invoice" }] }) },
    model: { listModels: () => ({}) },
    tag: { listTags: () => ({}) },
  }, "/prompts?schema=sch_1", { ...SESSION, organizationId: "org_2" });
  await user.click(await screen.findByRole("button", { name: "Show Read" }));
  // A viewer reads a prompt, and cannot change it.
  expect((await screen.findByLabelText<HTMLTextAreaElement>(/^Instructions/)).readOnly).toBe(true);
  expect(screen.queryByRole("button", { name: "Save" })).toBeNull();
  expect(window.location.search).toBe("?schema=sch_1&prompt=prm_1");
  window.history.back();
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await choose(user, screen.getByRole("combobox", { name: "Schema" }), "Invoice");
  await waitFor(() => expect(filters).toEqual(["schema:sch_1", "schema:sch_2"]));
});

test("the schema of a prompt is searched on the server, and stays chosen when the search ends", async () => {
  const created: v1.CreatePromptRequest[] = [];
  const { user } = renderPage({
    prompt: { listPrompts: () => ({}), createPrompt: (request) => { created.push(request); return {}; } },
    schema: { listSchemas: ({ filter }) => (filter === 'name:"inv"' ? { schemas: [{ schemaId: "sch_150", schemaRevid: "sch_150.3", name: "Invoice", revision: 3 }] } : {}) },
    model: { listModels: () => ({}) },
    tag: { listTags: () => ({}) },
  }, "/prompts?prompt=new");
  const form = within(await screen.findByRole("dialog"));
  await user.type(await form.findByLabelText(/^Name/), "Read");
  await user.type(form.getByLabelText(/^Instructions/), "Find it");
  const input = form.getByRole<HTMLInputElement>("combobox", { name: "Schema" });
  await user.type(input, "inv");
  await user.click(await screen.findByRole("option", { name: "Invoice (revision 3)", hidden: true }));
  await waitFor(() => expect(input.value).toBe("Invoice (revision 3)"));
  await user.click(form.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(created.map(({ prompt }) => prompt?.schemaRevid)).toEqual(["sch_150.3"]));
});

test("a link to a deleted prompt says so", async () => {
  renderPage({ prompt: { listPrompts: () => ({}) }, schema: { listSchemas: () => ({}) }, tag: { listTags: () => ({}) } }, "/prompts?prompt=prm_9");
  expect(await screen.findByText("The prompt was deleted.")).toBeTruthy();
});
