import { FolioError } from "folio-client";
import { describe, expect, test } from "vitest";
import { adviceFor, isNotPermitted, isSessionEnd, retrySeconds } from "../src/errors/advice.js";

const REASONS = ["TURN_BUSY", "TURN_PENDING", "TURN_EXPIRED", "ANSWER_INVALID", "VERSION_CONFLICT", "DECISION_CONFLICT", "POLICY_DENIED", "SPU_EXHAUSTED", "QUOTA_EXCEEDED", "THREAD_FULL"];

describe("adviceFor", () => {
  test.each(REASONS)("%s has a text and an action", (reason) => {
    const advice = adviceFor(new FolioError("FAILED_PRECONDITION", reason, "text of the server"));
    expect(advice.text).not.toBe("");
    expect(advice.text).not.toContain("text of the server");
    expect(advice.action).not.toBe("none");
    expect(advice.label).not.toBe("");
  });

  test("each of these reasons has its own text", () => {
    const texts = REASONS.map((reason) => adviceFor(new FolioError("ABORTED", reason, "")).text);
    expect(new Set(texts).size).toBe(REASONS.length);
  });

  test("an invalid request shows the fields that the server names", () => {
    const violations = [{ field: "tag.name", description: "is missing" }];
    const error = new FolioError("INVALID_ARGUMENT", "INVALID_FIELD", "invalid", { violations });
    expect(adviceFor(error)).toMatchObject({ text: "tag.name: is missing", action: "none" });
  });

  test("an unknown reason falls back to its code, and a failure without a server offers a retry", () => {
    expect(adviceFor(new FolioError("NOT_FOUND", "NEW_WORD", "")).title).toBe("Not found");
    expect(adviceFor(new FolioError("INTERNAL", "", "broken"))).toMatchObject({ text: "broken", action: "retry" });
    expect(adviceFor(new TypeError("x"))).toMatchObject({ action: "retry" });
  });
});

test("a wrong password does not end a session, a refused token does", () => {
  expect(isSessionEnd(new FolioError("UNAUTHENTICATED", "SIGN_IN_FAILED", ""))).toBe(false);
  expect(isSessionEnd(new FolioError("UNAUTHENTICATED", "INVALID_TOKEN", ""))).toBe(true);
  expect(isNotPermitted(new FolioError("PERMISSION_DENIED", "ROLE_NOT_ALLOWED", ""))).toBe(true);
});

test("the time of a repetition is rounded up to seconds", () => {
  expect(retrySeconds(new FolioError("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "", { retryAfter: 1_200 }))).toBe(2);
  expect(retrySeconds(new Error("x"))).toBeUndefined();
});
