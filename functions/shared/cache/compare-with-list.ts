/** What a LIST knows better than a memory that a watch feeds, of one part: an owner's pods, a namespace's StatefulSets. Pure. */

interface Versioned {
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: number | string;
}

interface ListedPart<T> {
  /** All that the memory has, by `NAMESPACE/NAME`: an object may have been in another part before. */
  readonly byPath: ReadonlyMap<string, T>;
  /** What the memory has of this part. */
  readonly known: readonly T[];
  readonly listed: readonly T[];
  /** The names in the whole list: a pod that has left its owner still stands. */
  readonly names: { has(name: string): boolean };
  readonly listedAt: number;
  /** Up to which revision the watch has told all. */
  readonly reached: number;
}

/** What to put into the memory, and what to remove. It never goes back: what the watch has told since is kept. */
export function compareWithList<T extends Versioned>(part: ListedPart<T>): { put: readonly T[]; remove: readonly T[] } {
  const { byPath, known, listed, names, listedAt, reached } = part;
  const isNews = (one: T) => {
    const before = byPath.get(pathOf(one));
    // One that is not known may have been deleted since: only a list that is newer than the watch can tell.
    return before === undefined ? listedAt >= reached : revisionOf(before) < revisionOf(one);
  };
  const isGone = (one: T) => !names.has(one.name) && revisionOf(one) <= listedAt;
  return { put: listed.filter(isNews), remove: known.filter(isGone) };
}

/** True when a list says the same of a part as the memory, which has `count` objects in it. */
export function isUnchanged<T extends Versioned>(
  byPath: ReadonlyMap<string, T>,
  count: number,
  listed: readonly T[],
): boolean {
  const isKnown = (one: T) => byPath.get(pathOf(one))?.resourceVersion === one.resourceVersion;
  return count === listed.length && listed.every(isKnown);
}

/** Where a memory keeps an object. */
export function pathOf({ namespace, name }: Versioned): string {
  return `${namespace}/${name}`;
}

export function revisionOf({ resourceVersion }: Versioned): number {
  return Number(resourceVersion);
}
