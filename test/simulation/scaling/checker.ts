/**
 * The invariants of sizes, by the objects of the world and by what the pods themselves were told.
 *
 * D1: replicas never drop before every leaving pod has confirmed, for at least the delay, on the highest ordinals first. D2: a
 * pod that stays is told so in the end.
 */

import type { StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import { ordinalIn, setNameOf } from "../../support/checkers/raw.ts";
import type { Checker } from "../checker.ts";
import type { Ingesters, Notified } from "./ingesters.ts";

export interface ScalingCheckerOptions {
  readonly world: World;
  readonly namespace: string;
  readonly ingesters: Ingesters;
  readonly violate: (invariant: string, message: string) => void;
  /** What a pod of the StatefulSet must have been told before it leaves, and for how long, in milliseconds. */
  readonly notifiedBefore: (statefulSet: StoredStatefulSet) => { readonly delayMs?: number; readonly leaving?: true };
  /** True while a user changes a size by hand, at the user's own risk. */
  readonly isByHand: () => boolean;
  /** Number of replicas that is wanted in the end; undefined for a StatefulSet that follows no other object. */
  readonly wanted: (statefulSet: StoredStatefulSet) => number | undefined;
}

/** Pods answer in whole seconds, and so does the clock of an API server. */
const roundingMs = 2_500;
/**
 * Changes in the last moments before a drop did not reach its decision: a pod was replaced, or a process that had read another
 * number told it to stay. A process acts on an answer of a pod, and on a claim, for at most five seconds.
 */
const underWayMs = 12_000;

export class ScalingChecker implements Checker {
  readonly invariants = ["D1", "D2", "L1"];
  readonly #options: ScalingCheckerOptions;
  /**
   * Number of sizes that were lowered, but not by hand. Tests check it, because a run in which nothing happens proves nothing.
   */
  lowered = 0;

  constructor(options: ScalingCheckerOptions) {
    this.#options = options;
    options.world.store.onChange("statefulsets", ({ previous, current }) => {
      if (previous !== undefined && current !== undefined) this.#changed(previous, current);
    });
  }

  #changed(previous: StoredStatefulSet, current: StoredStatefulSet): void {
    const [from, to] = [previous.spec.replicas ?? 1, current.spec.replicas ?? 1];
    if (to >= from || current.metadata.namespace !== this.#options.namespace || this.#options.isByHand()) return;
    this.lowered++;
    const { delayMs, leaving } = this.#options.notifiedBefore(current);
    for (const pod of this.#podsOf(current)) {
      const ordinal = ordinalIn(pod.metadata.name);
      if (ordinal < to || ordinal >= from || pod.metadata.deletionTimestamp !== undefined) continue;
      if (delayMs !== undefined) this.#check(pod, this.#options.ingesters.delayed(pod), delayMs);
      if (leaving) this.#check(pod, this.#options.ingesters.leaving(pod.metadata.uid), 0);
    }
  }

  #check(
    { metadata: { name, creationTimestamp = "" } }: StoredPod,
    notified: Notified | undefined,
    delayMs: number,
  ): void {
    const nowMs = this.#options.world.timeline.nowMs();
    if (nowMs - Date.parse(creationTimestamp) < underWayMs) return;
    const why = whyNot(notified, nowMs, delayMs);
    if (why !== undefined) this.#options.violate("D1", `${name} leaves, and ${why}`);
  }

  #podsOf({ metadata: { name, namespace = "" } }: StoredStatefulSet): StoredPod[] {
    const { store } = this.#options.world;
    return store.list("pods", { namespace }).items.filter(({ metadata }) => setNameOf(metadata.name) === name);
  }

  missing(): string | undefined {
    const { world, namespace, wanted, ingesters } = this.#options;
    for (const set of world.store.list("statefulsets", { namespace }).items) {
      const { name } = set.metadata;
      const replicas = wanted(set);
      if (replicas === undefined) continue;
      if (set.spec.replicas !== replicas)
        return `${name} has ${set.spec.replicas} replicas, and ${replicas} are wanted`;
      const prepared = this.#podsOf(set).find((pod) => ingesters.isPrepared(pod));
      if (prepared !== undefined) return `${prepared.metadata.name} stays, and is still prepared to leave (D2)`;
    }
    return undefined;
  }
}

function whyNot(notified: Notified | undefined, nowMs: number, delayMs: number): string | undefined {
  if (notified === undefined) return "was never told";
  const { sinceMs, untilMs = nowMs } = notified;
  if (nowMs - untilMs > underWayMs) return `was told ${nowMs - untilMs} ms ago that it stays`;
  if (nowMs - sinceMs >= delayMs - roundingMs) return undefined;
  return `has prepared for ${nowMs - sinceMs} ms, not for ${delayMs}`;
}
