// Generates src/gen from the proto files with buf and protoc-gen-es. The generated code is not committed: the proto files are its
// only source.
import { execFileSync } from "node:child_process";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url));
const generated = `${folder}src/gen`;
const template = JSON.stringify({
  version: "v2",
  plugins: [{ local: "protoc-gen-es", out: generated, opt: ["target=ts", "import_extension=js"] }],
});
rmSync(generated, { recursive: true, force: true });
for (const [input, path] of [
  [`${folder}../../proto`, "folio/v1"],
  [`${folder}proto`, "google/rpc"],
]) {
  execFileSync("buf", ["generate", input, "--template", template, "--path", `${input}/${path}`], { stdio: "inherit" });
}
const modules = readdirSync(`${generated}/folio/v1`).sort();
const lines = modules.map((file) => `export * from "./folio/v1/${file.replace(/\.ts$/, ".js")}";`);
writeFileSync(`${generated}/v1.ts`, lines.join("\n") + "\n");
