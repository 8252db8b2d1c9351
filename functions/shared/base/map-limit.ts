import limitOf from "p-limit";

/**
 * Runs `work` for each item, at most `limit` at once, begun in their order. Resolves to the results in the same order. A failure
 * does not stop the others: when all were tried, it throws the first failure in that order.
 */
export async function mapLimit<Item, Result>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const limited = limitOf(limit);
  const settled = await Promise.allSettled(items.map((item) => limited(work, item)));
  return settled.map((one) => {
    if (one.status === "rejected") throw one.reason;
    return one.value;
  });
}
