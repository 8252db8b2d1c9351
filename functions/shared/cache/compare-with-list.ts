/** Compares a LIST with the part of a memory that a watch feeds: an owner's pods, a namespace's StatefulSets. Pure. */

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

/** What to put into the memory, and what to remove. The memory never goes back, and keeps what the watch has reported since. */
export function compareWithList<T extends Versioned>(part: ListedPart<T>): { put: readonly T[]; remove: readonly T[] } {
  const { byPath, known, listed, names, listedAt, reached } = part;
  const isNews = (one: T) => {
    const before = byPath.get(pathOf(one));
    // An unknown object may have been deleted since: only a list that is newer than the watch can show that it exists.
    return before === undefined ? listedAt >= reached : revisionOf(before) < revisionOf(one);
  };
  const isGone = (one: T) => !names.has(one.name) && revisionOf(one) <= listedAt;
  return { put: listed.filter(isNews), remove: known.filter(isGone) };
}

/** True if a list agrees with the memory about a part, which has `count` objects in it. */
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
