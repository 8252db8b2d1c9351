/** Answers to evictions, by the group of the pod. */
import { Counter, type Registry } from "prom-client";
import { BoundedMap } from "../../functions/shared/base/bounded-map.ts";
import { escapeTexts } from "../../functions/shared/base/escape-control.ts";
import { type GroupKey, groupPathOf } from "../../functions/shared/workloads/statefulsets.ts";

/** The most groups with series. A new one replaces the one that was known first. */
const mostGroups = 1_000;

interface Counted {
  readonly key: GroupKey;
  allowed: number;
  refused: number;
}

/**
 * A counter of answers. Every group that `readKeys` gives has its two series from the beginning, at 0: Prometheus sees no
 * increase where a series begins with its first answer. The series of a group that `readKeys` gives no longer vanish with the
 * next scrape. `readKeys` must not reject.
 */
export function createEvictionMetrics(registers: Registry[], readKeys: () => Promise<readonly GroupKey[]>) {
  const counts = new BoundedMap<string, Counted>(mostGroups);
  let known: ReadonlySet<string> = new Set();
  const of = (key: GroupKey): Counted => {
    const path = groupPathOf(key);
    const before = counts.get(path);
    if (before !== undefined) return before;
    const counted = { key, allowed: 0, refused: 0 };
    counts.set(path, counted);
    return counted;
  };
  new Counter({
    name: "sluice_evictions_total",
    help: "Evictions of a group's pods that were reviewed, by the answer: allowed or refused; dry runs are not counted.",
    labelNames: ["namespace", "rollout_group", "answer"],
    registers,
    async collect() {
      const keys = await readKeys();
      const now = new Set(keys.map(groupPathOf));
      for (const path of known) if (!now.has(path)) counts.delete(path);
      known = now;
      for (const key of keys) of(key);
      this.reset();
      for (const { key, ...answers } of counts.values())
        for (const answer of ["allowed", "refused"] as const)
          this.inc(escapeTexts({ namespace: key.namespace, rollout_group: key.group, answer }), answers[answer]);
    },
  });
  return {
    /** Counts the answer to one eviction of a pod of the group. */
    countEviction(key: GroupKey, isAllowed: boolean): void {
      of(key)[isAllowed ? "allowed" : "refused"]++;
    },
  };
}
