/** A map and a set with a bound, for what other accounts may fill. What they forget is only read again. */

/**
 * A map of at most `capacity` keys, which is at least 1. Beyond it, the key that was added first is forgotten. A key that is set
 * again keeps its place, as in any map; delete it before to move it to the end.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #capacity: number;

  constructor(capacity: number) {
    super();
    this.#capacity = capacity;
  }

  override set(key: Key, value: Value): this {
    super.set(key, value);
    if (this.size > this.#capacity) {
      const [oldest] = this.keys();
      this.delete(oldest as Key);
    }
    return this;
  }
}

/** A set of at most `capacity` items. Beyond it, the item that was added first is forgotten. */
export class BoundedSet<Item> extends Set<Item> {
  readonly #capacity: number;

  constructor(capacity: number) {
    super();
    this.#capacity = capacity;
  }

  override add(item: Item): this {
    super.add(item);
    if (this.size > this.#capacity) {
      const [oldest] = this;
      this.delete(oldest as Item);
    }
    return this;
  }
}
