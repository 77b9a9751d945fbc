// The browser of the suites: contexts without network access to other hosts, sign-in, and checks that each page must pass.
import type AxeCore from "axe-core";
import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import { chromium, type Browser, type BrowserContext, type Locator, type Page } from "playwright-core";
import { inject } from "vitest";

export type Theme = "light" | "dark";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const EXECUTABLE = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
/** Maximum time for a change on the page, in milliseconds. */
export const WAIT_MS = 30_000;

export async function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: EXECUTABLE, args: ["--no-sandbox", "--font-render-hinting=none", "--disable-lcd-text"] });
}

/** The unwanted events of a browser context, such as errors on the console. */
export interface Violations {
  /** Requests to other hosts, refused styles and scripts, and exceptions of scripts. */
  readonly found: string[];
}

export interface Visitor {
  readonly context: BrowserContext;
  readonly page: Page;
  readonly violations: Violations;
}

interface VisitorOptions {
  readonly width?: number;
  readonly height?: number;
}

/** Opens the page as a new visitor. Requests to other hosts fail, and are reported. */
export async function visit(browser: Browser, { width = 1280, height = 800 }: VisitorOptions = {}): Promise<Visitor> {
  const { page: origin } = inject("servers");
  const context = await browser.newContext({ baseURL: origin, colorScheme: "light", viewport: { width, height }, locale: "en-US", timezoneId: "UTC", reducedMotion: "reduce" });
  context.setDefaultTimeout(WAIT_MS);
  const violations: Violations = { found: [] };
  await context.route(({ href }) => !href.startsWith(origin) && !href.startsWith("blob:") && !href.startsWith("data:"), async (route) => {
    violations.found.push(`request to ${route.request().url()}`);
    await route.abort();
  });
  const page = await context.newPage();
  watch(page, violations);
  context.on("page", (opened) => watch(opened, violations));
  return { context, page, violations };
}

const watched = new WeakSet<Page>();

function watch(page: Page, { found }: Violations): void {
  if (watched.has(page)) return;
  watched.add(page);
  page.on("pageerror", (error) => found.push(`exception: ${error.message}`));
  page.on("dialog", (dialog) => { found.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  page.on("console", (message) => {
    if (/Content.Security.Policy/i.test(message.text())) found.push(message.text());
  });
}

/** The stored sessions by their tokens, as the page wrote them. */
const sessions = new Map<string, Record<string, string>>();

/** Signs in with a token, and opens an address. Later sign-ins with the same token restore the session that the first one stored. */
export async function signIn(page: Page, token: string, address = "/"): Promise<void> {
  const stored = sessions.get(token);
  if (stored !== undefined) {
    await page.addInitScript((entries) => {
      if (sessionStorage.length === 0) Object.entries(entries).forEach(([key, value]) => sessionStorage.setItem(key, value));
    }, stored);
    await page.goto(address);
  } else {
    await page.goto("/");
    await page.getByRole("tab", { name: "Token" }).click();
    await page.locator("input[name=token]").fill(token);
    await page.getByRole("button", { name: "Continue" }).click();
  }
  await page.getByRole("navigation", { name: "Views" }).waitFor({ state: "attached" });
  sessions.set(token, await page.evaluate(() => ({ ...sessionStorage })));
  if (stored === undefined && address !== "/") await page.goto(address);
}

/** Signs in with a password. */
export async function signInWithPassword(page: Page, email: string, password: string): Promise<void> {
  await page.goto("/");
  await page.getByLabel("E-mail address").fill(email);
  await page.locator("input[name=password]").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Sends a message to the agent. */
export async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel("Message to the agent").fill(text);
  await page.getByRole("button", { name: "Send", exact: true }).click();
}

export function card(page: Page, tool: string): Locator {
  return page.getByRole("region", { name: `Tool call ${tool}` });
}

export async function visible(locator: Locator): Promise<void> {
  await locator.first().waitFor({ state: "visible" });
}

export async function hidden(locator: Locator): Promise<void> {
  await locator.first().waitFor({ state: "hidden" });
}

/** Returns the violations that axe finds. */
export async function violationsOf(page: Page, state: string): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(await readFile(AXE, "utf8"));
  const found = await page.evaluate(async () => {
    const { violations } = await (window as unknown as { axe: typeof AxeCore }).axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 200)} (${failureSummary ?? ""})`).join("; ")}`);
  });
  return found.map((violation) => `${state}: ${violation}`);
}

/** Replaces what differs between two runs: times, ids, and sizes of random content. The layout keeps its widths. */
export async function stabilize(page: Page): Promise<void> {
  await page.evaluate(() => {
    const rules: readonly [RegExp, string][] = [
      [/\b[A-Z][a-z]{2} \d{1,2}, \d{4}, \d{1,2}:\d{2}\s[AP]M/g, "Mar 17, 2026, 10:00 AM"],
      [/\b(doc|thr|sch|prm|ext|tag|usr|tok|job|org|whe|whd|lim|turn)_[0-9a-f]{32}/g, `$1_${"0".repeat(32)}`],
      [/(\b\d+ h )?\b\d+ min left/g, "5 min left"],
      [/\b(http:\/\/127\.0\.0\.1):\d+/g, "$1:8080"],
    ];
    const replaced = (text: string) => rules.reduce((all, [pattern, value]) => all.replace(pattern, value), text);
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const text = replaced(node.textContent ?? "");
      if (text !== node.textContent) node.textContent = text;
    }
    for (const input of document.querySelectorAll("input")) {
      const text = replaced(input.value);
      if (text !== input.value) input.value = text;
    }
    for (const element of document.querySelectorAll("[aria-label], a[href]")) {
      for (const name of ["aria-label", "href"]) {
        const value = element.getAttribute(name);
        if (value !== null && replaced(value) !== value) element.setAttribute(name, replaced(value));
      }
    }
  });
}
