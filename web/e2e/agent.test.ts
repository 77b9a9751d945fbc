import { v1 } from "folio-client";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { card, hidden, launch, say, signIn, signInWithPassword, visible, visit } from "./browser.js";
import { newOrganization, newPerson, openGate, PASSWORD, uploadText, type Organization } from "./organization.js";

/** An image of two pixels in Base64. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR4nGP4zwAE/wEHAAH/4iOeWQAAAABJRU5ErkJggg==";

let browser: Browser;
let organization: Organization;

beforeAll(async () => {
  browser = await launch();
  organization = await newOrganization("Agents");
});
afterAll(async () => {
  organization.api.close();
  await browser.close();
});

/** Uploads a document, and returns the address of its agent panel. */
async function newConversation(name: string): Promise<string> {
  const { documentId } = await uploadText(organization, name, "Invoice Number: A-17\nTotal: 957.00 EUR\n");
  return `/documents/${documentId}?panel=agent`;
}

const tagNames = async () => (await organization.api.tags.listTags({ pageSize: 100 })).tags.map(({ name }) => name);

async function openAgent(page: Page, address: string): Promise<void> {
  await signIn(page, organization.token, address);
  await visible(page.getByLabel("Message to the agent"));
}

test("an approved call runs, and the answer follows", async () => {
  const { page, context, violations } = await visit(browser);
  await openAgent(page, await newConversation("approve.txt"));
  await say(page, "tag approved");
  await visible(card(page, "create_tag").getByText("Waits"));
  expect(await tagNames()).not.toContain("tag approved");
  await page.getByRole("button", { name: "Approve create_tag" }).click();
  await visible(page.getByText("about the tag is done."));
  await visible(card(page, "create_tag").getByText("Done"));
  expect(await page.locator("strong", { hasText: "decision" }).count()).toBe(1);
  expect(await tagNames()).toContain("tag approved");
  expect(violations.found).toEqual([]);
  await context.close();
});

test("an edited call runs with its new arguments, and invalid arguments are refused", async () => {
  const { page, context } = await visit(browser);
  await openAgent(page, await newConversation("edit.txt"));
  await say(page, "tag before");
  await page.getByRole("button", { name: "Edit create_tag" }).click();
  const editor = page.getByLabel("Arguments", { exact: true });
  // The server checks the text with the schema of the tool.
  await editor.fill('{"title": 17}');
  await visible(page.getByText("The call would fail now"));
  await expect.poll(() => editor.getAttribute("aria-invalid")).toBe("true");
  await expect.poll(() => page.getByRole("button", { name: "Approve edited call" }).isDisabled()).toBe(true);
  await editor.fill('{"name": "after the edit"}');
  await page.getByRole("button", { name: "Approve edited call" }).click();
  await visible(page.getByText("about the tag is done."));
  const names = await tagNames();
  expect([names.includes("after the edit"), names.includes("tag before")]).toEqual([true, false]);
  await context.close();
});

test("a rejected call does not run, and the model gets the reason", async () => {
  const { page, context } = await visit(browser);
  await openAgent(page, await newConversation("reject.txt"));
  await say(page, "tag rejected");
  await page.getByRole("button", { name: "Reject create_tag" }).click();
  await page.getByLabel("Reason for the model").fill("We have this tag.");
  await page.getByRole("button", { name: "Reject call" }).click();
  await visible(page.getByText("about the tag is done."));
  await visible(card(page, "create_tag").getByText("Rejected"));
  expect(await tagNames()).not.toContain("tag rejected");
  await context.close();
});

test("calls that wait survive a reload, and are approved together", async () => {
  const { page, context } = await visit(browser);
  await openAgent(page, await newConversation("reload.txt"));
  await say(page, "pair");
  await visible(page.getByRole("button", { name: "Approve all 2 calls" }));
  await page.reload();
  await visible(page.getByText(/min left|h left|days left/));
  await page.getByRole("button", { name: "Approve all 2 calls" }).click();
  await visible(page.getByText("Both calls are decided."));
  expect(await tagNames()).toEqual(expect.arrayContaining(["pair a", "pair b"]));
  await context.close();
});

test("a message replaces calls that wait only by the button that states it", async () => {
  const { page, context } = await visit(browser);
  await openAgent(page, await newConversation("supersede.txt"));
  await say(page, "tag superseded");
  await visible(card(page, "create_tag").getByText("Waits"));
  await page.getByLabel("Message to the agent").fill("hello");
  await page.getByLabel("Message to the agent").press("Enter");
  await visible(card(page, "create_tag").getByText("Waits"));
  await page.getByRole("button", { name: "Supersede the waiting calls and send" }).click();
  await visible(page.getByText("Hello from the scripted model."));
  expect(await tagNames()).not.toContain("tag superseded");
  await context.close();
});

test("an image is attached, sent with a message, and shown after a reload", async () => {
  const { page, context, violations } = await visit(browser);
  await openAgent(page, await newConversation("image.txt"));
  await page.getByLabel("Images", { exact: true }).setInputFiles({ name: "pixels.png", mimeType: "image/png", buffer: Buffer.from(PNG, "base64") });
  await visible(page.getByRole("img", { name: "Image 1", exact: true }));
  await say(page, "what is this?");
  await visible(page.getByText("Hello from the scripted model."));
  await page.reload();
  const image = page.getByRole("img", { name: "Image 1 of the message", exact: true });
  await visible(image);
  await expect.poll(() => image.evaluate((shown) => (shown as HTMLImageElement).naturalWidth)).toBe(2);
  expect(violations.found).toEqual([]);
  await context.close();
});

test("calls that need no approval run and are folded", async () => {
  const { page, context } = await visit(browser);
  await openAgent(page, await newConversation("automatic.txt"));
  await say(page, "read the tags");
  await visible(page.getByText("I read the tags."));
  await visible(page.getByText("1 automatic tool call"));
  await hidden(card(page, "list_tags"));
  await page.getByRole("combobox", { name: "Approval" }).click();
  await page.getByRole("option", { name: "Approve all calls" }).click();
  await say(page, "tag automatic");
  await visible(page.getByText("about the tag is done."));
  expect(await tagNames()).toContain("tag automatic");
  // The card is folded.
  expect(await page.getByText("Approved automatically").count()).toBe(1);
  await context.close();
});

test("a stream that loses its connection continues where it stopped", async () => {
  const { page, context } = await visit(browser);
  await openAgent(page, await newConversation("offline.txt"));
  await say(page, "slow");
  await visible(page.getByText("First words"));
  await context.setOffline(true);
  await visible(page.getByText("You are offline"));
  await openGate("middle");
  await context.setOffline(false);
  await visible(page.getByText("First words arrive at once, and the last words arrive after the gate opens."));
  await hidden(page.getByText("You are offline"));
  await visible(page.getByRole("button", { name: "Send", exact: true }));
  await context.close();
});

test("two tabs show the same thread, and a decision in one appears in the other", async () => {
  const { page, context } = await visit(browser);
  await openAgent(page, await newConversation("tabs.txt"));
  await say(page, "tag of two tabs");
  await visible(card(page, "create_tag").getByText("Waits"));
  const address = new URL(page.url());
  const other = await context.newPage();
  await openAgent(other, address.pathname + address.search);
  await visible(card(other, "create_tag").getByText("Waits"));
  await other.getByRole("button", { name: "Approve create_tag" }).click();
  await visible(other.getByText("about the tag is done."));
  // The tab reads the thread again when it becomes visible. The other tab may show the answer before its end is stored.
  await expect.poll(async () => {
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    return page.getByText("about the tag is done.").first().isVisible();
  }, { interval: 1_000 }).toBe(true);
  await hidden(page.getByRole("button", { name: "Approve create_tag" }));
  await context.close();
});

test("two users decide about one call: one decision applies, and the other user sees it", async () => {
  const [ann, bob] = [await newPerson(organization, "Ann", v1.Role.ADMIN), await newPerson(organization, "Bob", v1.Role.ADMIN)];
  const { page, context } = await visit(browser);
  const { page: second, context: secondContext } = await visit(browser);
  await signInWithPassword(page, ann.email, PASSWORD);
  await visible(page.getByRole("heading", { name: "Documents", level: 1 }));
  await page.goto(await newConversation("users.txt"));
  await say(page, "tag of two users");
  await visible(card(page, "create_tag").getByText("Waits"));
  await signInWithPassword(second, bob.email, PASSWORD);
  await second.getByRole("link", { name: "Inbox" }).click();
  const item = second.getByRole("listitem").filter({ hasText: "tag of two users" });
  await visible(item);
  await item.getByRole("button", { name: "Reject create_tag" }).click();
  await item.getByRole("button", { name: "Reject call" }).click();
  await hidden(item);
  // Ann may still see the old state, and decides otherwise. The button may disappear before the click.
  const approve = page.getByRole("button", { name: "Approve create_tag" });
  if (await approve.isVisible()) await approve.click({ timeout: 5_000 }).catch(() => undefined);
  await visible(card(page, "create_tag").getByText("Rejected").or(page.getByRole("alert")));
  expect(await tagNames()).not.toContain("tag of two users");
  await context.close();
  await secondContext.close();
});

test("threads are listed, renamed and deleted", async () => {
  const { page, context } = await visit(browser);
  await openAgent(page, await newConversation("threads.txt"));
  await say(page, "hello");
  await visible(page.getByText("Hello from the scripted model."));
  await page.getByRole("button", { name: "Actions of the conversation" }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.getByLabel("Title").fill("Greetings");
  await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
  await hidden(page.getByRole("dialog"));
  await expect.poll(() => page.getByRole("combobox", { name: "Conversation" }).inputValue()).toBe("Greetings");
  await page.getByRole("button", { name: "Actions of the conversation" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await visible(page.getByRole("heading", { name: "Ask about this document" }));
  await context.close();
});
