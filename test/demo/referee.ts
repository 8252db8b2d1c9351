/**
 * Checks every deletion and eviction in the true world, whatever Sluice believes: invariants Z1 to Z4 and E1 by the simulation's
 * checkers, E2 by what becomes of a pod after a dry run; and how much was down at once.
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
  /** For whatever reason: replaced, broken, missing. */
  readonly down: number;
  /** Taken by Sluice while Ready and not back. */
  readonly taken: number;
}

export interface RefereeOptions {
  readonly world: World;
  /** Of the one group that there is. */
  readonly namespace: string;
  readonly group: string;
  /** Whether a pod that its zone wants no more has said that it may leave. */
  readonly mayLeave: (pod: StoredPod) => boolean;
  /** Gets each deletion and eviction of a pod, before it is carried out. */
  readonly onDeletion: (pod: StoredPod, by: Terms | "downscale") => void;
  readonly onViolation: (violation: Violation) => void;
}

interface Taken {
  readonly uid: string;
  readonly zone: string;
}

/** The StatefulSet's name in a pod's name. */
export function zoneOf(podName: string): string {
  return podName.replace(/-\d+$/, "");
}

/** True when a pod serves: Ready, and not on its way out. */
export function isUp(pod: StoredPod): boolean {
  return isReady(pod) && pod.metadata.deletionTimestamp === undefined;
}

/** To be made before the world has any object, so that it knows their past. */
export class Referee {
  readonly violations: Violation[] = [];
  /** How many pods were deleted, how many of them were Ready, and how many evicted. */
  readonly deletions = { all: 0, ready: 0, evicted: 0 };
  /** How many pods have left because their zone is smaller. */
  left = 0;
  /** The most zones that had a pod down at once: for whatever reason, and taken by Sluice. */
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

  /** From now on everything counts: the world stands. */
  begin(): void {
    this.#deciding = true;
  }

  /** How many pods Sluice has taken that are not back. */
  get takenNow(): number {
    return this.#taken.size;
  }

  /** How many pods of a zone were deleted or evicted: each had to be replaced. */
  deletedIn(zone: string): number {
    return this.#deletedIn.get(zone) ?? 0;
  }

  /** A user asks, in a dry run, whether a pod could go that no other client wants: from now on nothing may touch it. */
  noteDryRun(pod: StoredPod): void {
    this.#dryRuns.note(pod);
  }

  /** A user wants pods gone from now on: the referee cannot tell any more what a dry run has left. */
  endDryRuns(): void {
    this.#dryRuns.end();
  }

  worstOf(zone: string): WorstOfZone {
    return this.#worst.get(zone) ?? { down: 0, taken: 0 };
  }

  /**
   * Pods end by the hand of a kubelet, which confirms with a grace period of 0, or of a client that asks for it: here, Sluice.
   * The store reports a deletion only when it is done, and the checkers look at the pod as it was.
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

  /** What was taken first, and by whose limits, is told by when it was reserved. */
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
    // Here a deletion arrives within milliseconds: what is true now was true when it was sent.
    if (by === "rollout") this.#checker.onSent("Sluice", key, preconditions as Preconditions);
    this.#checker.onArrived("Sluice", by, key, preconditions);
    if (!isReady(pod)) return;
    this.deletions.ready++;
    this.#taken.set(name, { uid, zone: zoneOf(name) });
  }

  /** The StatefulSet wants it no more: its controller takes it, and no other process needs to. */
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
