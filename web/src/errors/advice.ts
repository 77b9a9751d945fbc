// The text and the action for a failed call. No I/O.
import { FolioError, type Reason } from "folio-client";

/** An action that the page offers after an error. */
export type Action =
  | "retry"
  | "reload"
  | "stop turn"
  | "supersede"
  | "send again"
  | "new thread"
  | "show approvers"
  | "show usage"
  | "show limits"
  | "sign in"
  | "none";

export interface Advice {
  readonly title: string;
  /** A sentence for people. It contains no text of the server. */
  readonly text: string;
  readonly action: Action;
  /** The label of the action's button. Empty for the action `none`. */
  readonly label: string;
}

const BY_REASON: Partial<Record<Reason, Advice>> = {
  TURN_BUSY: {
    title: "The agent is still working",
    text: "Another message of this conversation is being answered. Wait for the answer, or stop it.",
    action: "stop turn",
    label: "Stop the answer",
  },
  TURN_PENDING: {
    title: "Calls wait for a decision",
    text: "Decide on the waiting calls first, or replace them with your new message. Replaced calls do not run.",
    action: "supersede",
    label: "Supersede the calls",
  },
  TURN_EXPIRED: {
    title: "The decision came too late",
    text: "The calls were not decided in time, and none of them ran. Ask again to get new calls.",
    action: "send again",
    label: "Ask again",
  },
  ANSWER_INVALID: {
    title: "The model gave no usable answer",
    text: "The answer does not have the form that the agent requires. Ask again, or choose another model.",
    action: "send again",
    label: "Ask again",
  },
  VERSION_CONFLICT: {
    title: "This was changed meanwhile",
    text: "Your change is based on an older version and was not saved. Reload to see the current version.",
    action: "reload",
    label: "Reload",
  },
  DECISION_CONFLICT: {
    title: "Already decided",
    text: "Another user decided on this call differently. The recorded decision applies.",
    action: "reload",
    label: "Show the decision",
  },
  POLICY_DENIED: {
    title: "The policy does not permit this",
    text: "A rule of your organization reserves this decision for other users, or denies the call.",
    action: "show approvers",
    label: "Show who may approve",
  },
  SPU_EXHAUSTED: {
    title: "No credit left",
    text: "The credit of your organization does not cover another model call. An administrator can add credit.",
    action: "show usage",
    label: "Show usage",
  },
  QUOTA_EXCEEDED: {
    title: "Limit of the organization reached",
    text: "Your organization does too much of this at once, or has too many of these. Try again later.",
    action: "show limits",
    label: "Show limits",
  },
  THREAD_FULL: {
    title: "This conversation is full",
    text: "It accepts no further message. Continue in a new conversation about the same document.",
    action: "new thread",
    label: "New conversation",
  },
  TOO_MANY_ATTEMPTS: {
    title: "Too many attempts",
    text: "Sign-in to this address is blocked for up to 15 minutes after 10 failed attempts.",
    action: "none",
    label: "",
  },
  SIGN_IN_FAILED: {
    title: "Sign-in failed",
    text: "The e-mail address or the password is wrong.",
    action: "none",
    label: "",
  },
  USERS_DISABLED: {
    title: "Sign-in is switched off",
    text: "This installation has no sign-in with a password. Use an access token.",
    action: "none",
    label: "",
  },
};

const BY_CODE: Partial<Record<FolioError["code"], Advice>> = {
  UNAUTHENTICATED: {
    title: "Your session has ended",
    text: "Sign in again to continue. Work that was saved is kept.",
    action: "sign in",
    label: "Sign in",
  },
  PERMISSION_DENIED: {
    title: "Not permitted",
    text: "Your role or your token does not permit this.",
    action: "none",
    label: "",
  },
  NOT_FOUND: {
    title: "Not found",
    text: "It was deleted, or it belongs to another organization.",
    action: "none",
    label: "",
  },
  UNAVAILABLE: {
    title: "The server is not reachable",
    text: "Check the connection. The page tries again by itself when it is back.",
    action: "retry",
    label: "Try again",
  },
};

const INVALID = new Set<FolioError["code"]>(["INVALID_ARGUMENT", "ALREADY_EXISTS", "FAILED_PRECONDITION", "OUT_OF_RANGE"]);

/** Returns the advice for an error of any kind. */
export function adviceFor(error: unknown): Advice {
  if (!(error instanceof FolioError)) {
    return { title: "Unexpected error", text: "The page failed. Try again.", action: "retry", label: "Try again" };
  }
  const known = BY_REASON[error.reason] ?? BY_CODE[error.code];
  if (known !== undefined) return known;
  if (INVALID.has(error.code)) {
    return { title: "The server refused this", text: refusal(error), action: "none", label: "" };
  }
  return { title: "The request failed", text: refusal(error), action: "retry", label: "Try again" };
}

/** Returns the advice for a visitor that the server refuses the limits of the organization, which its administrators read. */
export function withoutLimits(advice: Advice): Advice {
  return advice.action === "show limits" ? { ...advice, action: "retry", label: "Try again" } : advice;
}

/** Returns the server's text, with the invalid fields if it names them. */
function refusal(error: FolioError): string {
  const fields = error.violations.map(({ field, description }) => `${field}: ${description}`);
  return fields.length > 0 ? fields.join("; ") : error.text;
}

/** Returns the seconds after which the request may be repeated. Undefined: unknown. */
export function retrySeconds(error: unknown): number | undefined {
  if (!(error instanceof FolioError) || error.retryAfter === undefined) return undefined;
  return Math.ceil(error.retryAfter / 1_000);
}

/** Returns true if the caller's role, scope or the policy refused the request. */
export function isNotPermitted(error: unknown): boolean {
  return error instanceof FolioError && error.code === "PERMISSION_DENIED";
}

/** Returns true if the token is no longer accepted. */
export function isSessionEnd(error: unknown): boolean {
  return error instanceof FolioError && error.code === "UNAUTHENTICATED" && error.reason !== "SIGN_IN_FAILED";
}
