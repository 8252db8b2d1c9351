/**
 * Checks every deletion and eviction by the objects of the cluster, whatever Sluice believes. The simulation's checkers check
 * invariants Z1 to Z4 and E1; E2 is checked by what happens to a pod after a dry run. Counts also how much was down at once.
 */
import type { ObjectKey, Preconditions, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { isReady, type StoredPod } from "../fake-cluster/objects.ts";
import type { World } from "../fake-cluster/world.ts";
import type { DeleteOptions } from "../fake-cluster/write-rules.ts";
import { BudgetPast } from "../support/checkers/budgets.ts";
import type { Terms } from "../support/checkers/limits.ts";
import { Past } from "../support/checkers/past.ts";
import { ledgerGroupOf, readReservations } from "../support/checkers/raw.ts";
import { TrueWorldChecker } from "../support/checkers/true-world.ts";
import { DryRuns } from "./dry-runs.ts";
import { evictionGraceSeconds } from "./eviction.ts";

export interface Violation {
  readonly invariant: string;
  readonly message: string;
}

/** The most that was down at once in one zone. */
export interface WorstOfZone {
  /** Pods that were down for any reason: replaced, broken or missing. */
  readonly down: number;
  /** Pods that Sluice took while Ready and that are not back. */
  readonly taken: number;
}

export interface RefereeOptions {
  readonly world: World;
  /** Namespace of the only group. */
  readonly namespace: string;
  readonly group: string;
  /** True if a pod that its zone no longer wants has agreed to leave. */
  readonly mayLeave: (pod: StoredPod) => boolean;
  /** Receives each deletion and eviction of a pod, before it is carried out. */
  readonly onDeletion: (pod: StoredPod, by: Terms | "downscale") => void;
  readonly onViolation: (violation: Violation) => void;
}

interface Taken {
  readonly uid: string;
  readonly zone: string;
}

/** Name of the StatefulSet, from a pod's name. */
export function zoneOf(podName: string): string {
  return podName.replace(/-\d+$/, "");
}

/** True if a pod serves: Ready and not terminating. */
export function isUp(pod: StoredPod): boolean {
  return isReady(pod) && pod.metadata.deletionTimestamp === undefined;
}

/** Create it before the world has any object, so that it knows their past. */
export class Referee {
  readonly violations: Violation[] = [];
  /** Number of deleted pods, of those that were Ready, and of those that were evicted. */
  readonly deletions = { all: 0, ready: 0, evicted: 0 };
  /** Number of pods that have left because their zone is smaller. */
  left = 0;
  /** Most zones that had a pod down at the same time: for any reason, and because of Sluice. */
  readonly worstZones = { down: 0, taken: 0 };
  readonly #options: RefereeOptions;
  readonly #checker: TrueWorldChecker;
  readonly #dryRuns: DryRuns;
  readonly #deletedIn = new Map<string, number>();
  readonly #worst = new Map<string, WorstOfZone>();
  readonly #taken = new Map<string, Taken>();
  #deciding = false;

  constructor(options: RefereeOptions) {
    this.#options = options;
    const { world, namespace } = options;
    const violate = (invariant: string, message: string): void => this.#violate(invariant, message);
    const past = new Past(world, namespace);
    const budgets = new BudgetPast(world, namespace);
    this.#checker = new TrueWorldChecker({ world, past, budgets, namespace, skewMs: 0, violate });
    this.#dryRuns = new DryRuns(world, (message) => violate("E2", message));
    this.#listenToDeletions();
    this.#listenToLedger();
    world.store.onChange("pods", ({ current }) => {
      if (current !== undefined) this.#returnIfBack(current);
      if (this.#deciding) this.#count();
    });
  }

  /** From now on everything counts, because the cluster is complete. */
  begin(): void {
    this.#deciding = true;
  }

  /** Number of pods that Sluice has taken and that are not back. */
  get takenNow(): number {
    return this.#taken.size;
  }

  /** Number of a zone's pods that were deleted or evicted, and so had to be replaced. */
  deletedIn(zone: string): number {
    return this.#deletedIn.get(zone) ?? 0;
  }

  /**
   * A user asks in a dry run whether a pod could go that no other client wants to remove: from now on nothing may change it.
   */
  noteDryRun(pod: StoredPod): void {
    this.#dryRuns.note(pod);
  }

  /** A user removes pods from now on, so the referee can no longer recognise traces of a dry run. */
  endDryRuns(): void {
    this.#dryRuns.end();
  }

  worstOf(zone: string): WorstOfZone {
    return this.#worst.get(zone) ?? { down: 0, taken: 0 };
  }

  /**
   * Intercepts deletions, because the store reports one only when it is done, and the checkers need the pod as it was. A
   * kubelet confirms with a grace period of 0; every other deletion comes from a client, which is Sluice here.
   */
  #listenToDeletions(): void {
    const { store } = this.#options.world;
    const carryOut = store.delete.bind(store);
    store.delete = <R extends Resource>(resource: R, key: ObjectKey, options: DeleteOptions = {}) => {
      if (resource === "pods" && options.gracePeriodSeconds !== 0) this.#check(key, options);
      return carryOut(resource, key, options);
    };
  }

  #violate(invariant: string, message: string): void {
    const violation = { invariant, message };
    this.violations.push(violation);
    this.#options.onViolation(violation);
  }

  /** The checkers need the time of each reservation, to know which was first, and under whose limits. */
  #listenToLedger(): void {
    const { world, namespace } = this.#options;
    world.store.onChange("leases", ({ previous, current }) => {
      if (current === undefined || current.metadata.namespace !== namespace) return;
      const before = new Set(
        previous === undefined ? [] : readReservations(previous)?.map((one) => JSON.stringify(one)),
      );
      const all = readReservations(current) ?? [];
      const made = all.filter((one) => !before.has(JSON.stringify(one)));
      this.#checker.noteWritten(ledgerGroupOf(current), made, all);
    });
  }

  #check(key: ObjectKey, { preconditions = {}, gracePeriodSeconds }: DeleteOptions): void {
    const pod = this.#options.world.store.find("pods", key);
    if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return;
    const { uid, name } = pod.metadata;
    if (preconditions.uid !== undefined && preconditions.uid !== uid) return;
    if (this.#isSurplus(pod)) {
      this.#checkLeaving(pod);
      return;
    }
    const by = gracePeriodSeconds === evictionGraceSeconds ? "eviction" : "rollout";
    this.deletions.all++;
    if (by === "eviction") this.deletions.evicted++;
    this.#deletedIn.set(zoneOf(name), this.deletedIn(zoneOf(name)) + 1);
    this.#options.onDeletion(pod, by);
    // Here a deletion arrives within milliseconds, so the current state is also that of the sending.
    if (by === "rollout") this.#checker.onSent("Sluice", key, preconditions as Preconditions);
    this.#checker.onArrived("Sluice", by, key, preconditions);
    if (!isReady(pod)) return;
    this.deletions.ready++;
    this.#taken.set(name, { uid, zone: zoneOf(name) });
  }

  /** True if the StatefulSet no longer wants the pod: its controller removes it, and no other process needs to. */
  #isSurplus({ metadata: { namespace, name } }: StoredPod): boolean {
    const { store } = this.#options.world;
    const statefulSet = store.find("statefulsets", { namespace, name: zoneOf(name) });
    return statefulSet !== undefined && Number(name.slice(zoneOf(name).length + 1)) >= statefulSet.spec.replicas;
  }

  #checkLeaving(pod: StoredPod): void {
    this.left++;
    this.#options.onDeletion(pod, "downscale");
    if (!this.#options.mayLeave(pod)) this.#violate("D1", `${pod.metadata.name} leaves, and has not said that it may`);
  }

  #returnIfBack(pod: StoredPod): void {
    const taken = this.#taken.get(pod.metadata.name);
    if (taken !== undefined && taken.uid !== pod.metadata.uid && isUp(pod)) this.#taken.delete(pod.metadata.name);
  }

  #count(): void {
    const { store } = this.#options.world;
    const taken = [...this.#taken.values()].map(({ zone }) => zone);
    let zonesDown = 0;
    for (const { metadata, spec } of store.list("statefulsets").items) {
      const up = [...store.ownedBy("pods", metadata.uid)].filter(isUp).length;
      const down = Math.max(0, spec.replicas - up);
      if (down > 0) zonesDown++;
      const worst = this.worstOf(metadata.name);
      this.#worst.set(metadata.name, {
        down: Math.max(worst.down, down),
        taken: Math.max(worst.taken, taken.filter((zone) => zone === metadata.name).length),
      });
    }
    this.worstZones.down = Math.max(this.worstZones.down, zonesDown);
    this.worstZones.taken = Math.max(this.worstZones.taken, new Set(taken).size);
  }
}
