// Fails if the JavaScript that the first view loads exceeds its budget.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET_KB = 250;
/** Modules that every signed-in visitor loads at once: the entry, and the view at `/`. */
const FIRST = ["index.html", "src/app.tsx", "src/documents/documents_view.tsx"];

const dist = new URL("dist/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", dist), "utf8"));
const files = new Map();

function add(key) {
  const chunk = manifest[key];
  if (chunk === undefined) throw new Error(`the build has no module ${key}`);
  if (files.has(chunk.file)) return;
  files.set(chunk.file, gzipSync(readFileSync(new URL(chunk.file, dist))).length);
  for (const imported of chunk.imports ?? []) add(imported);
}

for (const key of FIRST) if (key === "index.html" || manifest[key] !== undefined) add(key);
const total = [...files.values()].reduce((sum, size) => sum + size, 0);
for (const [file, size] of [...files].sort(([, a], [, b]) => b - a)) console.log(`${(size / 1024).toFixed(1).padStart(8)} KB  ${file}`);
console.log(`${(total / 1024).toFixed(1).padStart(8)} KB  initial JavaScript (gzip), budget ${BUDGET_KB} KB`);
if (total > BUDGET_KB * 1024) {
  console.error("the initial JavaScript exceeds its budget: load a module on demand");
  process.exitCode = 1;
}
