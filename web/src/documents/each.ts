// Runs an action for several items.

/** Number of items on which an action runs at once. */
const CONCURRENT = 4;

/** The result of an action on several items. */
export interface Outcome<T> {
  readonly done: readonly T[];
  readonly failed: readonly { readonly item: T; readonly error: unknown }[];
}

/** Runs an action for each item, a few at once. A failed item does not stop the others. */
export async function each<T>(items: readonly T[], action: (item: T) => Promise<unknown>): Promise<Outcome<T>> {
  const rest = [...items];
  const done: T[] = [];
  const failed: { item: T; error: unknown }[] = [];
  const work = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) {
      try {
        await action(item);
        done.push(item);
      } catch (error) {
        failed.push({ item, error });
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENT, items.length) }, work));
  return { done, failed };
}
