/** What could not be read, why, and since when. */
import { messageOf } from "../shared/base/error-message.ts";
import { ClusterError, isRightMissing, lackOf } from "../shared/kubernetes/cluster.ts";
import type { LeftOut } from "./snapshot.ts";

export class Omissions {
  readonly #byPart = new Map<string, LeftOut>();
  readonly #now: () => number;

  /** `now` is in milliseconds since the epoch. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get all(): readonly LeftOut[] {
    return [...this.#byPart.values()];
  }

  /** Notes that a part could not be read. `isAnswer` is true if the API server has refused, and false if it is away. */
  note(part: string, error: unknown): { readonly isAnswer: boolean } {
    const sinceMs = this.#byPart.get(part)?.sinceMs ?? this.#now();
    const why = isRightMissing(error) ? lackOf(error) : messageOf(error);
    this.#byPart.set(part, { part, why, sinceMs });
    return { isAnswer: error instanceof ClusterError && (error.code ?? 0) > 0 };
  }

  end(part: string): void {
    this.#byPart.delete(part);
  }
}
