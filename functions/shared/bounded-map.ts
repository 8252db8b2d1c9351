/** A map that others may fill: it never holds more than it was made for. */

/** Beyond `capacity` it forgets the entry that was set longest ago; one that is set again is the youngest. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #capacity: number;

  /** `capacity` is at least 1. */
  constructor(capacity: number) {
    super();
    this.#capacity = capacity;
  }

  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#capacity) {
      const [oldest] = this.keys();
      this.delete(oldest as Key);
    }
    return this;
  }
}
