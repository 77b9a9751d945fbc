// The nodes of an agent with a graph, as steps of its turn. No I/O.
import { v1 } from "folio-client";
import { parsed, type Json } from "../extraction/fields.js";
import { formatPercent } from "../format.js";

/** A node that runs or has ended. */
export interface Step {
  /** The round in which the node started. */
  readonly round: number;
  readonly name: string;
  /** Undefined: the node has not ended. */
  readonly end: StepEnd | undefined;
}

export interface StepEnd {
  readonly answerJson: string;
  /** True if the model gave no valid answer, and the agent continued with a default one. */
  readonly isDefault: boolean;
}

/** The typed answer of a turn. */
export interface TypedAnswer {
  /** Name of the type, such as `AnswerResponse`. */
  readonly type: string;
  readonly json: string;
}

/** Returns the steps after the start of a node. A later attempt of a round voids its steps. */
export function withStart(steps: readonly Step[], { round, name }: Pick<v1.NodeStarted, "round" | "name">): Step[] {
  const earlier = steps.filter((step) => step.round < round);
  const last = earlier.at(-1);
  // A node may take several rounds.
  if (last !== undefined && last.end === undefined && last.name === name) return earlier;
  return [...earlier, { round, name, end: undefined }];
}

/** Returns the steps after the end of a node. */
export function withEnd(steps: readonly Step[], round: number, node: v1.RoundNode | undefined): Step[] {
  const { name, end } = node ?? {};
  if (name === undefined || end === undefined) return [...steps];
  const ended = { answerJson: end.answerJson, isDefault: end.isDefault };
  const last = steps.at(-1);
  if (last === undefined || last.name !== name || last.end !== undefined) return [...steps, { round, name, end: ended }];
  return [...steps.slice(0, -1), { ...last, end: ended }];
}

/** Returns the steps of the rounds of a turn. */
export function stepsOf(rounds: readonly v1.Round[]): Step[] {
  return rounds.reduce<Step[]>((steps, { round, node }) => {
    if (node === undefined) return steps;
    return withEnd(withStart(steps, { round, name: node.name }), round, node);
  }, []);
}

/** Returns the typed answer that an ended node of the kind ANSWER gave. Undefined: there is none yet. */
export function answerOf(node: v1.RoundNode | undefined): TypedAnswer | undefined {
  if (node?.kind !== v1.NodeKind.ANSWER || node.end === undefined || node.end.answerJson === "") return undefined;
  return { type: node.answerType, json: node.end.answerJson };
}

/** Returns a typed answer of a message of the server. Undefined: it has none. */
export function typedAnswer({ answerJson, answerType }: Pick<v1.Completed, "answerJson" | "answerType">): TypedAnswer | undefined {
  return answerJson === "" || answerType === "" ? undefined : { type: answerType, json: answerJson };
}

/** Returns the name of a node for people, such as `Classify intent`. */
export function stepLabel(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Returns the result of an ended node that chooses the next one, such as `qa, 95%`. Empty: its answer is another one. */
export function intentOf(end: StepEnd | undefined): { readonly text: string; readonly reasoning: string } {
  const answer = end === undefined ? undefined : parsed(end.answerJson);
  const intent = member(answer, "intent_type");
  const confidence = member(answer, "confidence");
  const reasoning = member(answer, "reasoning");
  if (typeof intent !== "string") return { text: "", reasoning: "" };
  const share = typeof confidence === "number" && confidence >= 0 && confidence <= 1 ? `, ${formatPercent(confidence)}` : "";
  return { text: `${intent}${share}`, reasoning: typeof reasoning === "string" ? reasoning : "" };
}

/** Returns a member of a JSON object. Undefined: the value is no object, or lacks the member. */
export function member(value: Json | undefined, name: string): Json | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return Object.hasOwn(value, name) ? (value as Readonly<Record<string, Json>>)[name] : undefined;
}
