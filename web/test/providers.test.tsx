import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { nameProblem } from "../src/administration/provider_form.js";
import { dollarsOf, microdollarsOf, MODELS_MAX, newModel, withChanges, withModels } from "../src/administration/provider_models.js";
import { choose, refusal, renderPage, type Implementation } from "./page.js";

const HOSTILE = "<img src=x onerror=alert(1)>";
const { ORGANIZATION, PLATFORM } = v1.ProviderOwner;

test("models are added once, up to the maximum", () => {
  const stored = { ...newModel("a"), upstream: "vendor/a" };
  expect(withModels([stored], ["b", "", "b", "a", "vendor/a"]).map(({ name }) => name)).toEqual(["a", "b"]);
  expect(withModels([], Array.from({ length: 400 }, (_, index) => `m${index}`))).toHaveLength(MODELS_MAX);
  expect(withChanges([newModel("a"), newModel("b")], "b", { chat: false }).map(({ chat }) => chat)).toEqual([true, false]);
});

test("a price is exact in micro-dollars, and an empty one is unknown", () => {
  expect([microdollarsOf(0.15), microdollarsOf("2.5"), microdollarsOf(0), microdollarsOf(""), microdollarsOf("x"), microdollarsOf(-1), microdollarsOf(1e9)]).toEqual([150_000n, 2_500_000n, 0n, undefined, undefined, undefined, 1_000_000_000_000n]);
  expect([dollarsOf(150_000n), dollarsOf(0n), dollarsOf(undefined)]).toEqual([0.15, 0, ""]);
});

test("the name of a new provider is valid and free", () => {
  expect(nameProblem("open-ai.1_x", ["other"])).toBeUndefined();
  for (const name of ["", "A", "a b", "a".repeat(65), "taken"]) expect(nameProblem(name, ["taken"])).toBeDefined();
});

const PROVIDER = { name: "vendor", enabled: true, baseUrl: "https://a.example/v1", hasApiKey: true, streamUsage: true, models: [newModel("m1")] };

/** Renders the section with a fake server. `isPlatform`: whether the user administers the platform. */
function page(provider: Implementation<typeof v1.ProviderService>, isPlatform = false) {
  return renderPage({
    account: { getAccount: () => ({ user: { userId: "usr_1", platform: isPlatform } }) },
    provider: { listProviders: () => ({ providers: [PROVIDER], etag: "e1", defaultModel: "m1", platformProviders: ["openai"] }), ...provider },
    model: { listModels: () => ({ models: [{ name: "m1" }, { name: "m2" }] }) },
  }, "/administration/providers");
}

test("a provider is created, and its key is neither shown nor stored", async () => {
  const updates: v1.UpdateProviderRequest[] = [];
  const { user } = page({ updateProvider: (request) => { updates.push(request); return {}; } });
  await user.click(await screen.findByRole("button", { name: "New provider" }));
  const form = within(await screen.findByRole("dialog"));
  await user.type(form.getByLabelText(/^Name/), "vendor");
  expect(form.getByText("A provider has this name.")).toBeTruthy();
  await user.type(form.getByLabelText(/^Name/), "-2");
  await user.type(form.getByLabelText("Base URL"), "https://b.example/v1");
  const key = form.getByLabelText<HTMLInputElement>("API key");
  await user.type(key, "sk-secret");
  expect(key.type).toBe("password");
  await user.click(form.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(updates).toHaveLength(1));
  expect(updates[0]).toMatchObject({ owner: ORGANIZATION, etag: "e1", provider: { name: "vendor-2", baseUrl: "https://b.example/v1", apiKey: "sk-secret", enabled: true } });
  expect(updates[0]?.updateMask?.paths).toContain("api_key");
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(JSON.stringify({ ...sessionStorage, ...localStorage })).not.toContain("sk-secret");
});

test("a stored key is kept, replaced or deleted", async () => {
  const updates: v1.UpdateProviderRequest[] = [];
  const { user } = page({ updateProvider: (request) => { updates.push(request); return {}; } });
  for (const change of ["keep", "replace", "delete"]) {
    await user.click(await screen.findByRole("button", { name: "Edit vendor" }));
    const form = within(await screen.findByRole("dialog"));
    if (change === "replace") await user.type(form.getByLabelText("API key"), "new");
    if (change === "delete") await user.click(form.getByLabelText("Delete the stored key"));
    await user.click(form.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  }
  expect(updates.map(({ provider, updateMask }) => [provider?.apiKey, updateMask?.paths.includes("api_key")])).toEqual([["", false], ["new", true], ["", true]]);
});

test("models are discovered, chosen and saved", async () => {
  const updates: v1.UpdateProviderRequest[] = [];
  let availableModels: string[] = [];
  const { user } = page({
    listProviders: () => ({ providers: [{ ...PROVIDER, availableModels, ...(availableModels.length > 0 && { discoverTime: { seconds: 1n } }) }], etag: "e1" }),
    discoverModels: () => { availableModels = ["m1", HOSTILE]; return {}; },
    updateProvider: (request) => { updates.push(request); return {}; },
  });
  await user.click(await screen.findByRole("button", { name: "Models of vendor" }));
  const form = within(await screen.findByRole("dialog"));
  await user.click(form.getByRole("button", { name: "Discover models" }));
  expect(await form.findByText(/^The endpoint lists 2 models/)).toBeTruthy();
  await choose(user, form.getByRole("combobox", { name: "Models of the endpoint" }), HOSTILE);
  await user.type(form.getByLabelText("Another model"), "own");
  await user.click(form.getByRole("button", { name: "Add" }));
  await user.click(form.getByLabelText("Chats: own"));
  await user.type(form.getByLabelText("Input $ for a million tokens: own"), "0.15");
  await user.click(form.getByRole("button", { name: "Remove m1" }));
  await user.click(form.getByRole("button", { name: "Save the models" }));
  await waitFor(() => expect(updates).toHaveLength(1));
  expect(updates[0]?.updateMask?.paths).toEqual(["models"]);
  expect(updates[0]?.provider?.models.map(({ name, chat, inputPriceMicrodollars }) => [name, chat, inputPriceMicrodollars])).toEqual([[HOSTILE, true, undefined], ["own", false, 150_000n]]);
  expect(document.querySelector("img")).toBeNull();
});

test("a provider is tested, and a second press deletes it", async () => {
  const deleted: v1.DeleteProviderRequest[] = [];
  const answers = [{ model: "m1", answered: false, problem: "401 unauthorized" }, { model: "m1", answered: true, milliseconds: 320 }];
  const { user } = page({ testProvider: () => answers.shift() ?? {}, deleteProvider: (request) => { deleted.push(request); return {}; } });
  await user.click(await screen.findByRole("button", { name: "Test vendor" }));
  expect(await screen.findByText("m1 did not answer: 401 unauthorized")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Test vendor" }));
  expect(await screen.findByText("m1 answered in 320 ms.")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Delete vendor" }));
  expect(deleted).toEqual([]);
  await user.click(screen.getByRole("button", { name: "Confirm: Delete vendor" }));
  await waitFor(() => expect(deleted.map(({ name, etag }) => [name, etag])).toEqual([["vendor", "e1"]]));
});

test("default models are saved with the version that was read", async () => {
  const saved: v1.SetModelDefaultsRequest[] = [];
  const { user } = page({ setModelDefaults: (request) => { saved.push(request); return {}; } });
  await choose(user, await screen.findByRole("combobox", { name: "Fallback models, best first" }), "m2");
  await user.click(screen.getByRole("button", { name: "Save the defaults" }));
  await waitFor(() => expect(saved.map(({ defaultModel, fallbacks, etag }) => [defaultModel, fallbacks?.models, etag])).toEqual([["m1", ["m2"], "e1"]]));
});

test("the administrator of the platform chooses the owner, others do not", async () => {
  const owners: v1.ProviderOwner[] = [];
  const listProviders = ({ owner }: v1.ListProvidersRequest) => { owners.push(owner); return create(v1.ListProvidersResponseSchema); };
  const { user, unmount } = page({ listProviders }, true);
  await user.click(await screen.findByRole("radio", { name: "Platform" }));
  await waitFor(() => expect(owners).toEqual([ORGANIZATION, PLATFORM]));
  expect(await screen.findByText("No providers")).toBeTruthy();
  unmount();
  page({});
  await screen.findByRole("button", { name: "Edit vendor" });
  expect(screen.queryByRole("radio", { name: "Platform" })).toBeNull();
});

test("a refused list has the state of missing permissions", async () => {
  page({ listProviders: () => { throw refusal(Code.PermissionDenied, "ROLE_NOT_ALLOWED"); } });
  expect(await screen.findByText("You have no access to this")).toBeTruthy();
});
