import { defineConfig } from "vitest/config";

// The suites share a server and the processors of a small machine: one file after another.
export default defineConfig({
  test: {
    include: ["e2e/*.test.ts"],
    globalSetup: ["e2e/servers.ts"],
    environment: "node",
    fileParallelism: false,
    // The suites share the stored sessions and the loaded modules.
    isolate: false,
    testTimeout: 180_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
  },
});
