/**
 * `AbortController` and `AbortSignal` for simulated code. Node's own are EventTargets that hold each other weakly. Each timer
 * and each reconcile makes some, and they took a tenth of a seed's time. These behave the same for their callers, in the same
 * order, except that listeners get no event, and that joined signals are called in the order of joining.
 */

type Listener = () => void;

export class LightAbortSignal {
  aborted = false;
  reason: unknown;
  /** In the order in which they were added. Each is called at most once, because a signal is aborted once. */
  readonly #listeners: Listener[] = [];
  /** Signals that are aborted with this one: {@link LightAbortSignal.any} joined them. */
  #dependents: LightAbortSignal[] | undefined;
  /** The signals that were joined into this one; absent for a signal of a controller. */
  #sources: readonly LightAbortSignal[] | undefined;

  /** Joins signals: the new one is aborted with the first of them, for the same reason. */
  static any(signals: Iterable<LightAbortSignal>): LightAbortSignal {
    const any = new LightAbortSignal();
    const given = [...signals];
    const aborted = given.find((signal) => signal.aborted);
    if (aborted !== undefined) {
      any.#set(aborted.reason);
      return any;
    }
    any.#sources = given.flatMap((signal) => signal.#sources ?? [signal]);
    for (const source of any.#sources) {
      source.#dependents ??= [];
      source.#dependents.push(any);
    }
    return any;
  }

  addEventListener(_type: "abort", listener: Listener, _options?: { readonly once: true }): void {
    if (!this.aborted && !this.#listeners.includes(listener)) this.#listeners.push(listener);
  }

  removeEventListener(_type: "abort", listener: Listener): void {
    const index = this.#listeners.indexOf(listener);
    if (index >= 0) this.#listeners.splice(index, 1);
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }

  /** For the signal's controller only. */
  abort(reason: unknown): void {
    if (this.aborted) return;
    this.#set(reason);
    // All are aborted before the first listener is called.
    const dependents = this.#dependents?.filter((dependent) => !dependent.aborted) ?? [];
    for (const dependent of dependents) dependent.#set(reason);
    this.#notify();
    for (const dependent of dependents) dependent.#notify();
  }

  #set(reason: unknown): void {
    this.aborted = true;
    this.reason = reason;
  }

  #notify(): void {
    for (let listener = this.#listeners.shift(); listener !== undefined; listener = this.#listeners.shift()) listener();
  }
}

export class LightAbortController {
  readonly signal = new LightAbortSignal();

  abort(reason: unknown = new DOMException("This operation was aborted", "AbortError")): void {
    this.signal.abort(reason);
  }
}

/** Replaces Node's globals for all code of this process. */
export function useLightAborts(): void {
  Object.assign(globalThis, { AbortController: LightAbortController, AbortSignal: LightAbortSignal });
}
