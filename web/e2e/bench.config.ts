import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["e2e/bench/*.ts"], environment: "node", testTimeout: 900_000, disableConsoleIntercept: true },
});
