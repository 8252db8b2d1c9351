import limitOf from "p-limit";

/**
 * Runs `work` for each item, at most `limit` at once, begun in their order. Resolves to the results in the same order. When all
 * were tried, it throws the first failure in that order: what one item meets keeps no other one from its turn.
 */
export async function mapLimit<Item, Result>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const turn = limitOf(limit);
  const settled = await Promise.allSettled(items.map((item) => turn(work, item)));
  return settled.map((one) => {
    if (one.status === "rejected") throw one.reason;
    return one.value;
  });
}
