// Starts `folio serve` and `llm-sim` for all suites. `FOLIO_BIN` and `LLM_SIM_BIN` name the programs.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestProject } from "vitest/node";
import { startProxy } from "./dev/proxy.js";

const START_MS = 60_000;
const TARGET = new URL("../../target/debug", import.meta.url).pathname;
const SCRIPT = new URL("script.yaml", import.meta.url).pathname;
const MASTER_KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/** The addresses and credentials of the servers, for the suites. */
export interface Servers {
  /** The address of the page. */
  readonly page: string;
  /** The address of the server, for the client of Node. */
  readonly api: string;
  /** The address of the model endpoint. */
  readonly model: string;
  /** The token of the administrator of the platform. */
  readonly token: string;
}

declare module "vitest" {
  interface ProvidedContext {
    servers: Servers;
  }
}

/** A program whose output names its address. */
interface Program {
  readonly url: string;
  readonly child: ChildProcess;
}

/** Starts a program, and waits for the line with its address. */
async function start(program: string, folder: string, args: readonly string[], settings: Record<string, string> = {}): Promise<Program> {
  const child = spawn(program, args, { cwd: folder, env: { ...process.env, ...settings }, stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  const address = new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${program} did not start:\n${printed}`)), START_MS);
    const read = (line: string) => {
      printed += `${line}\n`;
      const found = /^listening on (?:http:\/\/)?(\S+)$/.exec(line);
      if (found?.[1] === undefined) return;
      clearTimeout(timer);
      resolve(`http://${found[1]}`);
    };
    for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", read);
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`${program} ended with ${code}:\n${printed}`)));
  });
  return { url: await address, child };
}

function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.once("exit", () => resolve());
    child.kill("SIGTERM");
  });
}

/** Returns settings for a model endpoint. */
export function settingsFor(model: string): string {
  return `
[users]
enabled = true
[models]
default_model = "scripted"
[models.providers.sim]
base_url = "${model}/v1"
api_key = "sim-key"
[models.providers.sim.models.scripted]
context_tokens = 65536
thinking = true
vision = true
[models.providers.sim.models.second]
context_tokens = 65536
`;
}

/** Starts `folio serve` in a folder, and its page. `model`: the address of the model endpoint. */
export async function startFolio(folder: string, model: string) {
  await writeFile(join(folder, "folio.toml"), settingsFor(model));
  const program = process.env["FOLIO_BIN"] ?? join(TARGET, "folio");
  const settings = { FOLIO_PROVIDERS__ALLOWED_NETWORKS: '["127.0.0.1"]', FOLIO_SECRETS__MASTER_KEYS: `["${MASTER_KEY}"]` };
  const folio = await start(program, folder, ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--no-detect"], settings);
  const token = (await readFile(join(folder, "data/admin.token"), "utf8")).trim();
  const hasPage = !(await (await fetch(folio.url)).text()).includes("contains no web page");
  const isProxied = process.env["FOLIO_PAGE_PROXY"] === "1";
  if (!hasPage && !isProxied) {
    await stop(folio.child);
    throw new Error(`${program} contains no page: build the page and then the binary, or set FOLIO_PAGE_PROXY=1`);
  }
  const proxy = isProxied ? await startProxy(folio.url) : undefined;
  const end = async () => {
    proxy?.server.closeAllConnections();
    proxy?.server.close();
    await stop(folio.child);
  };
  return { api: folio.url, page: proxy?.url ?? folio.url, token, end };
}

export default async function setup({ provide }: TestProject) {
  const folder = await mkdtemp(join(tmpdir(), "folio-page-"));
  const model = await start(process.env["LLM_SIM_BIN"] ?? join(TARGET, "llm-sim"), folder, ["--listen", "127.0.0.1:0", "--script", SCRIPT]);
  const folio = await startFolio(folder, model.url).catch(async (error: unknown) => {
    await stop(model.child);
    throw error;
  });
  provide("servers", { page: folio.page, api: folio.api, model: model.url, token: folio.token });
  return async () => {
    await folio.end();
    await stop(model.child);
    await rm(folder, { recursive: true, force: true });
  };
}
