// The policy as JSON text, in the form of docs/api.md. No I/O.
import { create, fromJsonString, toJson } from "@bufbuild/protobuf";
import { v1 } from "folio-client";

/** Maximum number of rules. */
export const RULES_MAX = 100;

/** Returns the rules of a policy as indented JSON. */
export function textOfPolicy(policy: v1.Policy | undefined): string {
  return JSON.stringify(policy === undefined ? {} : toJson(v1.PolicySchema, policy), null, 2);
}

/** Returns the policy of a text, or its problem. The server checks tools, conditions and sizes. */
export function policyOf(text: string): { readonly policy: v1.Policy } | { readonly problem: string } {
  let policy: v1.Policy;
  try {
    policy = fromJsonString(v1.PolicySchema, text);
  } catch (error) {
    return { problem: error instanceof Error ? error.message : "The text is not valid." };
  }
  if (policy.rules.length > RULES_MAX) return { problem: `A policy has at most ${RULES_MAX} rules.` };
  const incomplete = policy.rules.find(({ ruling }) => ruling.case === undefined);
  if (incomplete !== undefined) return { problem: `The rule ${JSON.stringify(incomplete.name)} needs one of deny, ask and allow.` };
  return { policy };
}

/** Returns the policy with a rule at another position. The first matching rule applies, so that the order matters. */
export function moved(policy: v1.Policy, from: number, step: 1 | -1): v1.Policy {
  const rules = [...policy.rules];
  const to = from + step;
  const rule = rules[from];
  if (rule === undefined || to < 0 || to >= rules.length) return policy;
  rules.splice(from, 1);
  rules.splice(to, 0, rule);
  return { ...policy, rules };
}

/** Returns the policy with a further rule, which asks for approval of all tools that write, so that it permits nothing by itself. */
export function withNewRule(policy: v1.Policy): v1.Policy {
  let number = policy.rules.length + 1;
  while (policy.rules.some(({ name }) => name === `Rule ${number}`)) number += 1;
  return { ...policy, rules: [...policy.rules, create(v1.PolicyRuleSchema, { name: `Rule ${number}`, ruling: { case: "ask", value: {} } })] };
}

/** Returns the policy without a rule. */
export function withoutRule(policy: v1.Policy, index: number): v1.Policy {
  return { ...policy, rules: policy.rules.filter((_, at) => at !== index) };
}

/** Returns a sentence about a rule. */
export function sentenceOf({ tools, ruling, arguments: conditions, profiles, userIds, roles }: v1.PolicyRule): string {
  const verb = { deny: "Denies", allow: "Allows", ask: "Asks for approval of" }[ruling.case ?? "deny"];
  const subject = tools.length === 0 ? "all tools that write" : tools.join(", ");
  const limits = conditions.length + profiles.length + userIds.length + roles.length;
  const approvers = ruling.case === "ask" && ruling.value.roles.length > 0 ? `, by ${ruling.value.roles.map((role) => `${(v1.Role[role] ?? "").toLowerCase()}s`).join(" or ")}` : "";
  return `${verb} ${subject}${limits > 0 ? `, with ${limits} conditions` : ""}${approvers}.`;
}
