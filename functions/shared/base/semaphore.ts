/**
 * One call of each group begins at once. Its other calls share a number of turns with those of all groups, of which one group has
 * a part, and one pod has a single call. So pods that never answer stop only their own group. Groups that wait take turns. Those
 * that wait are not too many either, and none waits for ever.
 */
import type { Clock } from "../clock/clock.ts";

export interface TurnsOptions {
  readonly clock: Pick<Clock, "sleep">;
  /** The calls that are under way besides the first one of each group. */
  readonly mostAtOnce: number;
  /** Groups whose first call needs none of these turns. Those of more groups wait. */
  readonly mostGroups: number;
  /** Calls to the pods of one group, at most. */
  readonly mostPerGroup: number;
  readonly mostWaiting: number;
}

/** Whose turn it is. A pod has one at a time. */
export interface TurnOwner {
  readonly group: string;
  readonly pod: string;
}

/** What the wait for a turn came to: `full` and `late` mean that it did not come. */
export type Slot = { readonly end: () => void } | "full" | "late" | "aborted";

interface Waiting extends TurnOwner {
  /** Ends its wait. */
  leave(slot: Slot): void;
}

export class Semaphore {
  readonly #options: TurnsOptions;
  #free: number;
  #firsts = 0;
  #waitingCount = 0;
  /** The groups that wait, the one whose turn is next first; of each its calls, in the order in which they came. */
  readonly #waiting = new Map<string, Set<Waiting>>();
  /** How many calls of a group are under way, where there are any. */
  readonly #underWay = new Map<string, number>();
  readonly #busyPods = new Set<string>();

  constructor(options: TurnsOptions) {
    this.#options = options;
    this.#free = options.mostAtOnce;
  }

  /** Waits at most `waitMs` for a slot. The caller must end it; ending it twice does nothing. */
  take(asked: TurnOwner, waitMs: number, signal: AbortSignal | undefined): Promise<Slot> {
    if (signal?.aborted) return Promise.resolve("aborted");
    // None of the calls that wait could begin: so this call overtakes none.
    if (this.#hasTurn(asked.group) && !this.#busyPods.has(asked.pod)) return Promise.resolve(this.#turn(asked));
    if (waitMs <= 0) return Promise.resolve("late");
    if (!this.#makeRoom(asked)) return Promise.resolve("full");
    return new Promise((resolve) => {
      const over = new AbortController();
      const leave = (slot: Slot) => {
        this.#remove(one);
        over.abort();
        signal?.removeEventListener("abort", onAbort);
        resolve(slot);
      };
      const one: Waiting = { ...asked, leave };
      const onAbort = () => leave("aborted");
      this.#add(one);
      signal?.addEventListener("abort", onAbort, { once: true });
      void this.#options.clock.sleep(waitMs, over.signal).then(() => {
        if (this.#waiting.get(one.group)?.has(one)) leave("late");
      });
    });
  }

  #turn({ group, pod }: TurnOwner): Slot {
    const isFirst = this.#isFirst(group);
    if (isFirst) this.#firsts += 1;
    else this.#free -= 1;
    this.#underWay.set(group, (this.#underWay.get(group) ?? 0) + 1);
    this.#busyPods.add(pod);
    let isOver = false;
    const end = () => {
      if (isOver) return;
      isOver = true;
      if (isFirst) this.#firsts -= 1;
      else this.#free += 1;
      const left = (this.#underWay.get(group) ?? 1) - 1;
      if (left > 0) this.#underWay.set(group, left);
      else this.#underWay.delete(group);
      this.#busyPods.delete(pod);
      while (this.#beginNext());
    };
    return { end };
  }

  #isFirst(group: string): boolean {
    return !this.#underWay.has(group) && this.#firsts < this.#options.mostGroups;
  }

  #hasTurn(group: string): boolean {
    if (this.#isFirst(group)) return true;
    return this.#free > 0 && (this.#underWay.get(group) ?? 0) < this.#options.mostPerGroup;
  }

  /** Begins the next call that may begin; false where there is none. */
  #beginNext(): boolean {
    for (const [group, calls] of this.#waiting) {
      if (!this.#hasTurn(group)) continue;
      for (const call of calls) {
        if (this.#busyPods.has(call.pod)) continue;
        // Its next turn comes behind those of all groups that wait.
        this.#waiting.delete(group);
        this.#waiting.set(group, calls);
        call.leave(this.#turn(call));
        return true;
      }
    }
    return false;
  }

  #add(one: Waiting): void {
    const calls = this.#waiting.get(one.group) ?? new Set();
    calls.add(one);
    this.#waiting.set(one.group, calls);
    this.#waitingCount += 1;
  }

  #remove(one: Waiting): void {
    const calls = this.#waiting.get(one.group);
    if (calls?.delete(one)) this.#waitingCount -= 1;
    if (calls?.size === 0) this.#waiting.delete(one.group);
  }

  /** Where too many wait, the last call of the group that has the most makes room for a group that has fewer. */
  #makeRoom({ group }: TurnOwner): boolean {
    if (this.#waitingCount < this.#options.mostWaiting) return true;
    const last = [...(this.#largest(group) ?? [])].at(-1);
    last?.leave("full");
    return last !== undefined;
  }

  /** The calls of the group that has the most waiting; undefined where the others have no more than this one would have. */
  #largest(group: string): ReadonlySet<Waiting> | undefined {
    let most = (this.#waiting.get(group)?.size ?? 0) + 1;
    let largest: ReadonlySet<Waiting> | undefined;
    for (const calls of this.#waiting.values()) {
      if (calls.size <= most) continue;
      most = calls.size;
      largest = calls;
    }
    return largest;
  }
}
