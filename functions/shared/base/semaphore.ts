/**
 * Slots for calls to pods. The first call of each group needs none; all other calls share a fixed number of slots. One group gets
 * only a part of them, and one pod one call at a time, so that pods that never answer stop only their own group. Waiting groups
 * take turns. The number of waiting calls and the time of each wait have a bound.
 */
import type { Clock } from "../clock/clock.ts";

export interface SemaphoreOptions {
  readonly clock: Pick<Clock, "sleep">;
  /** Calls that are under way besides the first one of each group, at most. */
  readonly mostAtOnce: number;
  /** Groups whose first call needs none of these slots, at most. */
  readonly mostGroups: number;
  /** Calls to the pods of one group, at most. */
  readonly mostPerGroup: number;
  readonly mostWaiting: number;
}

/** The pod that a slot is for. A pod has one at a time. */
export interface SlotOwner {
  readonly group: string;
  readonly pod: string;
}

/** How the wait for a slot ended: `full`, `late` and `aborted` mean that there is none. */
export type Slot = { readonly end: () => void } | "full" | "late" | "aborted";

interface Waiting extends SlotOwner {
  /** Ends its wait. */
  leave(slot: Slot): void;
}

export class Semaphore {
  readonly #options: SemaphoreOptions;
  #free: number;
  #firsts = 0;
  #waitingCount = 0;
  /** Waiting calls by group: the group whose turn is next comes first, and its calls are in order of arrival. */
  readonly #waiting = new Map<string, Set<Waiting>>();
  /** Number of calls under way by group, if there are any. */
  readonly #underWay = new Map<string, number>();
  readonly #busyPods = new Set<string>();

  constructor(options: SemaphoreOptions) {
    this.#options = options;
    this.#free = options.mostAtOnce;
  }

  /** Waits at most `waitMs` for a slot. The caller must end it; ending it twice does nothing. */
  take(asked: SlotOwner, waitMs: number, signal: AbortSignal | undefined): Promise<Slot> {
    if (signal?.aborted) return Promise.resolve("aborted");
    // No waiting call could begin now, so that this call overtakes none.
    if (this.#maySend(asked.group) && !this.#busyPods.has(asked.pod)) return Promise.resolve(this.#newSlot(asked));
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

  #newSlot({ group, pod }: SlotOwner): Slot {
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

  #maySend(group: string): boolean {
    if (this.#isFirst(group)) return true;
    return this.#free > 0 && (this.#underWay.get(group) ?? 0) < this.#options.mostPerGroup;
  }

  /** Begins the next call that may begin. Returns false if there is none. */
  #beginNext(): boolean {
    for (const [group, calls] of this.#waiting) {
      if (!this.#maySend(group)) continue;
      for (const call of calls) {
        if (this.#busyPods.has(call.pod)) continue;
        // Its next turn comes after all other waiting groups.
        this.#waiting.delete(group);
        this.#waiting.set(group, calls);
        call.leave(this.#newSlot(call));
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

  /** If too many calls wait, the last one of the group with the most makes room, unless this group would then have the most. */
  #makeRoom({ group }: SlotOwner): boolean {
    if (this.#waitingCount < this.#options.mostWaiting) return true;
    const last = [...(this.#largest(group) ?? [])].at(-1);
    last?.leave("full");
    return last !== undefined;
  }

  /** Waiting calls of the group with the most; undefined if no group has more than this one would have. */
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
