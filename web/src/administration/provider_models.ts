// The models of a provider in a form. No I/O.
import { create } from "@bufbuild/protobuf";
import { v1 } from "folio-client";

/** Maximum number of models of all providers of an owner. */
export const MODELS_MAX = 300;
const MICRO = 1_000_000;
/** Maximum price of a million tokens in dollars. */
export const PRICE_MAX = 1_000_000;

/** Returns a model that chats and prompts may use, with the sizes that the server knows. */
export function newModel(name: string): v1.ProviderModel {
  return create(v1.ProviderModelSchema, { name, enabled: true, chat: true, prompts: true });
}

/** Returns the models with those of these names, without repetitions, up to the maximum. */
export function withModels(models: readonly v1.ProviderModel[], names: readonly string[]): v1.ProviderModel[] {
  const known = new Set(models.flatMap(({ name, upstream }) => [name, upstream]));
  const added = [...new Set(names)].filter((name) => name !== "" && !known.has(name));
  return [...models, ...added.map(newModel)].slice(0, MODELS_MAX);
}

/** Returns the models with a changed one. */
export function withChanges(models: readonly v1.ProviderModel[], name: string, changes: Partial<v1.ProviderModel>): v1.ProviderModel[] {
  return models.map((model) => (model.name === name ? { ...model, ...changes } : model));
}

/** Returns a price in dollars. Empty: the price is unknown. */
export function dollarsOf(microdollars: bigint | undefined): number | "" {
  return microdollars === undefined ? "" : Number(microdollars) / MICRO;
}

/** Returns the price of a form value. Undefined: unknown. */
export function microdollarsOf(value: number | string): bigint | undefined {
  if (value === "") return undefined;
  const dollars = Number(value);
  if (!Number.isFinite(dollars) || dollars < 0) return undefined;
  return BigInt(Math.round(Math.min(dollars, PRICE_MAX) * MICRO));
}
