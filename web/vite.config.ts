import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The client is a link into the repository: without `dedupe`, its copies of these libraries would be bundled, too.
const shared = ["@bufbuild/protobuf", "@connectrpc/connect"];
const server = process.env["FOLIO_SERVER"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [react()],
  resolve: { dedupe: shared },
  build: { target: "es2023", manifest: true, assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: {
    fs: { allow: [".."] },
    proxy: Object.fromEntries(["/folio.v1.", "/v0"].map((prefix) => [prefix, server])),
  },
  test: {
    environment: "jsdom",
    testTimeout: 300_000,
    setupFiles: ["test/setup.ts"],
    include: ["test/**/*.test.{ts,tsx}"],
    server: { deps: { inline: ["folio-client"] } },
  },
});
