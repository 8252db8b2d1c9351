/** What runs for objects: one thing for each key, started anew when what it was started for is no longer so. */

export interface Closable {
  close(): Promise<void>;
}

export interface Stoppable {
  stop(graceMs: number): Promise<unknown>;
}

/**
 * Resolves when all have started. If one cannot start, this rejects with its error, and ends the others once they have started,
 * because no other code knows of them.
 */
export async function startTogether<T extends readonly Stoppable[]>(
  starts: {
    readonly [Index in keyof T]: Promise<T[Index]>;
  },
): Promise<T> {
  try {
    return (await Promise.all(starts)) as unknown as T;
  } catch (error) {
    const settled = await Promise.allSettled(starts);
    await Promise.all(settled.map((one) => (one.status === "fulfilled" ? one.value.stop(0) : undefined)));
    throw error;
  }
}

interface Entry<T> {
  readonly reason: string;
  readonly started: Promise<T>;
}

export class Running<T extends Closable> {
  readonly #entries = new Map<string, Entry<T>>();
  readonly #ready = new Map<string, T>();

  /**
   * Resolves to what runs for a key, and starts it where nothing runs. What was started for another `reason` is closed first.
   * Rejects as `start` does; nothing runs then.
   */
  async ensure(key: string, reason: string, start: () => Promise<T>): Promise<T> {
    const known = this.#entries.get(key);
    if (known?.reason === reason) return known.started;
    // Noted before anything is awaited: who asks for the same meanwhile gets the same.
    const started = this.#endOf(known, key).then(start);
    this.#entries.set(key, { reason, started });
    try {
      const value = await started;
      // Otherwise it was ended while it started.
      if (this.#entries.get(key)?.started === started) this.#ready.set(key, value);
      return value;
    } catch (error) {
      if (this.#entries.get(key)?.started === started) this.forget(key);
      throw error;
    }
  }

  /** What runs for a key and has started. */
  get(key: string): T | undefined {
    return this.#ready.get(key);
  }

  /** Of all keys that begin so. */
  startingWith(prefix: string): T[] {
    return [...this.#ready].flatMap(([key, value]) => (key.startsWith(prefix) ? [value] : []));
  }

  /** It has ended by itself. */
  forget(key: string): void {
    this.#entries.delete(key);
    this.#ready.delete(key);
  }

  async end(key: string): Promise<void> {
    const entry = this.#entries.get(key);
    this.forget(key);
    await this.#endOf(entry, key);
  }

  async #endOf(entry: Entry<T> | undefined, key: string): Promise<void> {
    this.#ready.delete(key);
    // The caller of `ensure` has the error of what could not start.
    const value = await entry?.started.catch(() => undefined);
    await value?.close();
  }

  /** Ends what runs for any other key. */
  async keepOnly(keys: ReadonlySet<string>): Promise<void> {
    await Promise.all([...this.#entries.keys()].filter((key) => !keys.has(key)).map((key) => this.end(key)));
  }
}
