// The results of a dry run of a policy. No I/O.
import { v1 } from "folio-client";

const { RUNS, WAITS, DENIED } = v1.Verdict;
const NAMES: Partial<Record<v1.Verdict, string>> = { [RUNS]: "runs", [WAITS]: "waits for approval", [DENIED]: "is denied" };

export function verdictName(verdict: v1.Verdict): string {
  return NAMES[verdict] ?? "unknown";
}

/** Returns the verdict with its approvers and its rule, such as `waits for approval by admins (rule “four eyes”)`. */
export function verdictText(verdict: v1.PolicyVerdict | undefined): string {
  if (verdict === undefined) return "unknown";
  const { rule, ask } = verdict;
  const roles = (ask?.roles ?? []).map((role) => `${(v1.Role[role] ?? "other").toLowerCase()}s`);
  const by = roles.length > 0 ? ` by ${roles.join(" or ")}` : "";
  const others = ask?.notByRequester === true ? ", not by the requester" : "";
  return `${verdictName(verdict.verdict)}${by}${others}${rule === "" ? "" : ` (rule “${rule}”)`}`;
}

/** Returns the calls for which the verdict, the rule or the approvers differ. */
export function changedCalls(calls: readonly v1.TestedCall[]): v1.TestedCall[] {
  return calls.filter(({ current, candidate }) => verdictText(current) !== verdictText(candidate));
}

/** Returns the turn of a call: the id of a call is the id of its turn, the round and the position, separated by periods. */
export function turnOfCall(callId: string): string {
  return callId.split(".").slice(0, -2).join(".");
}
