/**
 * `AbortController` and `AbortSignal` for code that is simulated. Node's own are EventTargets that hold each other weakly: each
 * timer and each reconcile makes some, and they were a tenth of a seed's time. These do the same for their callers,
 * in the same order; listeners get no event, and signals that are joined are told in the order of joining.
 */

type Listener = () => void;

export class LightAbortSignal {
  aborted = false;
  reason: unknown;
  /** In the order in which they were added. Each is called once at most, for a signal is aborted once. */
  readonly #listeners: Listener[] = [];
  /** The signals that are aborted with this one, made by {@link LightAbortSignal.any}. */
  #dependents: LightAbortSignal[] | undefined;
  /** What this one was made of; absent for one that a controller aborts. */
  #sources: readonly LightAbortSignal[] | undefined;

  /** A signal that is aborted with the first of these, and with its reason. */
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

  /** For its controller alone. */
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

/** Puts them in the place of Node's, for all code of this process that asks for them by their global names. */
export function useLightAborts(): void {
  Object.assign(globalThis, { AbortController: LightAbortController, AbortSignal: LightAbortSignal });
}
