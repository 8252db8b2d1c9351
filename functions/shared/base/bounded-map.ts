/** What others may fill: a map and a set that never hold more than they were made for. What is forgotten is only asked again. */

/**
 * Beyond `capacity`, which is at least 1, it forgets the key that came first. One that is set again stays in its place, as in any
 * map: a caller that wants it to be the youngest deletes it before.
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

/** The same of items without values. */
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
