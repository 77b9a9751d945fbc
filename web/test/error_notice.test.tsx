import { screen } from "@testing-library/react";
import { FolioError } from "folio-client";
import { expect, test } from "vitest";
import { ErrorNotice } from "../src/errors/error_notice.js";
import { renderPart, SESSION } from "./page.js";

const QUOTA = new FolioError("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "");

test("an administrator opens the limits of the organization", async () => {
  const { user } = renderPart({}, <ErrorNotice error={QUOTA} />);
  await user.click(await screen.findByRole("button", { name: "Show limits" }));
  expect(window.location.pathname).toBe("/administration/limits");
});

test("a visitor that may not read the limits repeats the request", async () => {
  let retries = 0;
  const { user } = renderPart({}, <ErrorNotice error={QUOTA} actions={{ retry: () => { retries += 1; } }} />, { ...SESSION, organizationId: "org_2" });
  expect(screen.queryByRole("button", { name: "Show limits" })).toBeNull();
  await user.click(await screen.findByRole("button", { name: "Try again" }));
  expect(retries).toBe(1);
});
