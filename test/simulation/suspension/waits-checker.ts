/**
 * S3: between two removals, of pods or of volumes, at least the wait that a user has asked for passes, counted from the last
 * removal in the group. What goes in one turn goes together: all of one zone with the mode `Zone`, one member with `Group`.
 * With `All` nothing waits. A StatefulSet that has just changed its group counts for both groups.
 */
import type { ObjectKey, Preconditions, Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredObject, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { Change } from "../../fake-cluster/watch-log.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import type { Caller, Checker } from "../checker.ts";
import type { SeedRun } from "../seed.ts";
import type { Absences } from "./absences.ts";
import { annotationOf, modeOf, podOf, waitMs } from "./raw.ts";

/** All removals of one turn are decided together, and each takes its time. */
const turnMs = 12_000;
/** Times have whole seconds. */
const roundingMs = 2_000;
const claimsResource = "persistentvolumeclaims";

interface Turn {
  readonly zone: string;
  readonly member: string;
  readonly what: string;
  readonly beganMs: number;
}

/** The removals of one group. */
interface Turns {
  /** The current turn, and when its last pod or volume went; the same for the turn before. */
  turn: Turn | undefined;
  turnWentMs: number;
  before: Turn | undefined;
  beforeWentMs: number;
}

export class WaitsChecker implements Checker {
  readonly invariants = ["S3"];
  readonly #run: SeedRun;
  readonly #absences: Absences;
  readonly #skewMs: () => number;
  readonly #turnsOf = new Map<string, Turns>();
  #last: Change<StoredObject> | undefined;

  constructor(run: SeedRun, absences: Absences, skewMs: () => number) {
    this.#run = run;
    this.#absences = absences;
    this.#skewMs = skewMs;
    for (const resource of [claimsResource, "statefulsets"] as const)
      run.world.store.onChange(resource, (change) => {
        this.#last = change as unknown as Change<StoredObject>;
      });
  }

  onPatched({ role }: Caller, resource: Resource, after: object): void {
    const change = this.#last;
    this.#last = undefined;
    const object = after as StoredObject;
    if (object.metadata.namespace !== this.#run.namespace || change?.previous === undefined) return;
    if (change.final.metadata.uid !== object.metadata.uid) return;
    if (resource === "statefulsets" && role.name === "suspender") {
      const [before, now] = [change.previous, object] as unknown as [StoredStatefulSet, StoredStatefulSet];
      if (now.spec.replicas >= before.spec.replicas) return;
      const { name } = object.metadata;
      this.#begin({ zone: name, member: `${name}-${now.spec.replicas}`, what: `pods of ${name}` });
      this.#went(name);
    }
    const isMarked = annotationOf(object, "suspend-state") === "Removing";
    if (resource !== claimsResource || role.name !== "collector" || !isMarked) return;
    if (annotationOf(change.previous, "suspend-state") === "Removing") return;
    const member = podOf(object);
    this.#begin({ zone: setNameOf(member), member, what: `the volume of ${member}` });
  }

  onDeletionArrived({ role }: Caller, resource: Resource, key: ObjectKey, conditions: Preconditions): void {
    if (resource !== claimsResource || key.namespace !== this.#run.namespace || role.name !== "collector") return;
    const claim = this.#run.world.store.find(claimsResource, key);
    if (claim === undefined || claim.metadata.uid !== conditions.uid) return;
    // If another client has written the volume claim since, the API server refuses the deletion, and nothing goes.
    const { resourceVersion } = claim.metadata;
    if ((conditions.resourceVersion ?? resourceVersion) === resourceVersion) this.#went(setNameOf(podOf(claim)));
  }

  /** The groups of a zone that a process which acts now may have read. */
  #groupsOf(zone: string): readonly string[] {
    return [...new Set(this.#absences.lately(zone).map(({ metadata }) => metadata.labels?.["rollout-group"] ?? ""))];
  }

  #turns(group: string): Turns {
    const known = this.#turnsOf.get(group);
    if (known !== undefined) return known;
    const never = Number.NEGATIVE_INFINITY;
    const turns = { turn: undefined, turnWentMs: never, before: undefined, beforeWentMs: never };
    this.#turnsOf.set(group, turns);
    return turns;
  }

  #went(zone: string): void {
    for (const group of this.#groupsOf(zone)) this.#turns(group).turnWentMs = this.#run.world.timeline.nowMs();
  }

  #begin({ zone, member, what }: Omit<Turn, "beganMs">): void {
    const nowMs = this.#run.world.timeline.nowMs();
    const policies = this.#absences.lately(zone).map((set) => ({ mode: modeOf(set), waitMs: waitMs(set) }));
    const groups = this.#groupsOf(zone).map((group) => this.#turns(group));
    for (const turns of groups) {
      const { turn } = turns;
      const isSame = turn !== undefined && turn.zone === zone && nowMs - turn.beganMs <= turnMs;
      const isOne = policies.some(({ mode }) => mode !== "Group") || turn?.member === member;
      if (isSame && isOne) continue;
      if (turn !== undefined) [turns.before, turns.beforeWentMs] = [turn, turns.turnWentMs];
      turns.turn = { zone, member, what, beganMs: nowMs };
    }
    if (policies.length === 0 || policies.some(({ mode }) => mode === "All" || mode === "None")) return;
    const leastMs = Math.min(...policies.map((one) => one.waitMs ?? Number.POSITIVE_INFINITY));
    // The process keeps the wait of the group that it has read, so the group with the longer pause counts.
    const [least] = groups.toSorted((one, other) => one.beforeWentMs - other.beforeWentMs);
    const { before, beforeWentMs } = least ?? this.#turns("");
    const passedMs = nowMs - beforeWentMs;
    if (passedMs + this.#skewMs() + roundingMs >= leastMs) return;
    const asked = Number.isFinite(leastMs) ? `${leastMs} ms are to pass` : "Sluice cannot read how long to wait";
    this.#run.violate("S3", `${what} begins to go ${passedMs} ms after ${before?.what} went, and ${asked}`);
  }
}
