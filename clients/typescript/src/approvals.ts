// Decisions about tool calls that wait for approval. No I/O.
import { create } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import * as v1 from "./gen/v1.js";

/** A tool call that waits for a decision, with the rule that requires it. */
export interface Approval {
  readonly turnId: string;
  readonly round: number;
  readonly callId: string;
  readonly tool: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** True if the tool writes. */
  readonly isWrite: boolean;
  /** Name of the rule of the organization's policy. Empty: no rule matched, and calls of writing tools wait by default. */
  readonly rule: string;
  /** Minimum roles that may approve, such as `admin`. Empty: each user with write access to the thread. */
  readonly roles: readonly string[];
  /** True if another user than the requester of the turn must approve. */
  readonly isRequesterExcluded: boolean;
  /** True if the user of this client may approve the call. */
  readonly mayApprove: boolean;
  /** Time from which decisions are refused. */
  readonly expireTime: Date | undefined;
  /** SHA-256 of the arguments; the decision is bound to it. */
  readonly digest: string;
}

/**
 * A decision about a call: `"approve"` runs it; `edited` runs it with these arguments; `reject` does not run it and gives the
 * model a reason; `"leave"` leaves it to another user. No call of a round runs before each call that needs a decision has one.
 */
export type Decision =
  | "approve"
  | "leave"
  | { readonly edited: Readonly<Record<string, unknown>> }
  | { readonly reject: string };

/** Decides about a call that waits for approval. */
export type Approver = (approval: Approval) => Decision | Promise<Decision>;

/** Returns the calls of a round that need a decision. `approvable`: ids of the calls that the user may approve. */
export function approvals(waiting: v1.AwaitingApproval, approvable: readonly string[]): Approval[] {
  return waiting.pending
    .filter((call) => call.needsApproval)
    .map((call) => ({
      turnId: waiting.turnId,
      round: waiting.round,
      callId: call.callId,
      tool: call.name,
      arguments: JSON.parse(call.argumentsJson || "{}") as Record<string, unknown>,
      isWrite: call.access === v1.ToolAccess.READ_WRITE,
      rule: call.approvalRequirement?.rule ?? "",
      roles: (call.approvalRequirement?.roles ?? []).map((role) => (v1.Role[role] ?? String(role)).toLowerCase()),
      isRequesterExcluded: call.approvalRequirement?.notByRequester ?? false,
      mayApprove: approvable.includes(call.callId),
      expireTime: waiting.expireTime && timestampDate(waiting.expireTime),
      digest: call.argumentsDigest,
    }));
}

/** Returns the request with the decisions. Undefined: calls need decisions, and all of them are left to other users. */
export function approveRequest(
  waiting: v1.AwaitingApproval,
  decisions: readonly (readonly [Approval, Decision])[],
): v1.ApproveRequest | undefined {
  const made = decisions.flatMap(([approval, decision]) => {
    if (decision === "leave") return [];
    return [create(v1.DecisionSchema, {
      callId: approval.callId,
      argumentsDigest: approval.digest,
      decision: decisionOf(decision),
    })];
  });
  if (decisions.length > 0 && made.length === 0) return undefined;
  const { turnId, round } = waiting;
  return create(v1.ApproveRequestSchema, { turnId, round, decisions: made, continueAutoApproved: true });
}

function decisionOf(decision: Exclude<Decision, "leave">): v1.Decision["decision"] {
  if (decision === "approve") return { case: "approved", value: create(v1.ApprovedSchema) };
  if ("edited" in decision) {
    const value = create(v1.ApprovedEditedSchema, { argumentsJson: JSON.stringify(decision.edited) });
    return { case: "approvedEdited", value };
  }
  return { case: "rejected", value: create(v1.RejectedSchema, { reason: decision.reject }) };
}
