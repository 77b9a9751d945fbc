// Errors of calls, with the reasons of the server.
import { durationMs, type Duration } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import * as v1 from "./gen/v1.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import type { Reason } from "./reasons.js";

const DOMAIN = "folio";

/** A gRPC status code in upper snake case, such as NOT_FOUND. */
export type ErrorCode =
  | "INVALID_ARGUMENT"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "RESOURCE_EXHAUSTED"
  | "UNAVAILABLE"
  | "DEADLINE_EXCEEDED"
  | "PERMISSION_DENIED"
  | "UNAUTHENTICATED"
  | "CANCELLED"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "DATA_LOSS"
  | "UNKNOWN";

/** A problem with one field of a request. */
export interface FieldViolation {
  /** Path of the field, such as `tag.name` or `document_ids[1]`. */
  readonly field: string;
  readonly description: string;
}

/** The optional facts of an error. */
export interface ErrorFacts {
  readonly retryAfter?: number | undefined;
  readonly violations?: readonly FieldViolation[];
  readonly details?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** A call failed. Programs decide by `code` and `reason`, never by `text`. */
export class FolioError extends Error {
  override readonly name = "FolioError";
  readonly code: ErrorCode;
  /** The cause as a stable word. Empty: no Folio server answered. */
  readonly reason: Reason | "";
  /** Text for people. */
  readonly text: string;
  /** Milliseconds after which the same request may be repeated. Undefined: unknown. */
  readonly retryAfter: number | undefined;
  /** The invalid fields of the request. */
  readonly violations: readonly FieldViolation[];
  /** Further facts for programs. */
  readonly details: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, reason: Reason | "", text: string, facts: ErrorFacts = {}) {
    super(`${text} (${reason || code})`, { cause: facts.cause });
    this.code = code;
    this.reason = reason;
    this.text = text;
    this.retryAfter = facts.retryAfter;
    this.violations = facts.violations ?? [];
    this.details = facts.details ?? {};
  }

  /** True if the connection broke or the stream reached a time limit of the server; the same request may succeed. */
  get isInterruption(): boolean {
    if (this.code === "UNAVAILABLE" || this.code === "DEADLINE_EXCEEDED") return true;
    // A transport reports a broken connection by various codes, without details of the server.
    return this.reason === "" && ["UNKNOWN", "INTERNAL", "CANCELLED", "ABORTED"].includes(this.code);
  }
}

/** Returns the error of a failed call. */
export function errorOf(reason: unknown): FolioError {
  if (reason instanceof FolioError) return reason;
  const error = ConnectError.from(reason);
  const info = error.findDetails(ErrorInfoSchema).find((info) => info.domain === DOMAIN);
  const retry = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  const violations = error.findDetails(BadRequestSchema).flatMap((bad) => bad.fieldViolations);
  return new FolioError(codeName(error.code), info?.reason ?? "", error.rawMessage, {
    retryAfter: milliseconds(retry),
    violations: violations.map(({ field, description }) => ({ field, description })),
    details: info?.metadata ?? {},
    cause: reason,
  });
}

/** Returns the error of a message, such as `Failed.error` of a turn or `Job.error`. */
export function errorOfMessage(error: v1.Error | undefined): FolioError {
  if (error === undefined) return new FolioError("INTERNAL", "", "the server sent no error");
  return new FolioError(error.code as ErrorCode, error.reason, error.message, {
    retryAfter: milliseconds(error.retryAfter),
    violations: error.violations.map(({ field, description }) => ({ field, description })),
    details: error.details,
  });
}

function milliseconds(duration: Duration | undefined): number | undefined {
  return duration === undefined ? undefined : durationMs(duration);
}

function codeName(code: Code): ErrorCode {
  if (code === Code.Canceled) return "CANCELLED";
  return Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase() as ErrorCode;
}
