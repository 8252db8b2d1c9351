/**
 * S3: between two removals, of pods or of volumes, at least the wait passes that somebody has asked for, counted from the moment
 * in which the last one went. What goes in one turn goes together: all of one zone where the mode is `Zone`, one member where it
 * is `Group`. With `All` nobody waits.
 */
import type { ObjectKey, Preconditions, Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import { setNameOf } from "../../stage/checkers/raw.ts";
import type { StoredObject, StoredStatefulSet } from "../../world/objects.ts";
import type { Change } from "../../world/watch-log.ts";
import type { Caller, Checker } from "../checker.ts";
import type { SeedRun } from "../seed.ts";
import type { Absences } from "./absences.ts";
import { modeOf, podOf, says, waitMs } from "./raw.ts";

/** All of one turn are decided together, and each takes its way. */
const turnMs = 12_000;
/** Times are of whole seconds. */
const roundingMs = 2_000;
const claimsResource = "persistentvolumeclaims";

interface Turn {
  readonly zone: string;
  readonly member: string;
  readonly what: string;
  readonly beganMs: number;
}

export class WaitsChecker implements Checker {
  readonly judges = ["S3"];
  readonly #run: SeedRun;
  readonly #absences: Absences;
  readonly #skewMs: () => number;
  /** The turn of now, and when the last pod or volume of it, and of any before it, went. */
  #turn: Turn | undefined;
  #turnWentMs = Number.NEGATIVE_INFINITY;
  #beforeWentMs = Number.NEGATIVE_INFINITY;
  #before: Turn | undefined;
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
      this.#went();
    }
    const isMarked = says(object, "suspend-state") === "Removing";
    if (resource !== claimsResource || role.name !== "collector" || !isMarked) return;
    if (says(change.previous, "suspend-state") === "Removing") return;
    const member = podOf(object);
    this.#begin({ zone: setNameOf(member), member, what: `the volume of ${member}` });
  }

  onDeletionArrived({ role }: Caller, resource: Resource, key: ObjectKey, conditions: Preconditions): void {
    if (resource !== claimsResource || key.namespace !== this.#run.namespace || role.name !== "collector") return;
    const claim = this.#run.world.store.find(claimsResource, key);
    if (claim?.metadata.uid === conditions.uid) this.#went();
  }

  #went(): void {
    this.#turnWentMs = this.#run.world.timeline.nowMs();
  }

  #begin({ zone, member, what }: Omit<Turn, "beganMs">): void {
    const nowMs = this.#run.world.timeline.nowMs();
    const policies = this.#absences.lately(zone).map((set) => ({ mode: modeOf(set), waitMs: waitMs(set) }));
    const turn = this.#turn;
    const isSame = turn !== undefined && turn.zone === zone && nowMs - turn.beganMs <= turnMs;
    const isOne = policies.some(({ mode }) => mode !== "Group") || turn?.member === member;
    if (!isSame || !isOne) {
      if (turn !== undefined) [this.#before, this.#beforeWentMs] = [turn, this.#turnWentMs];
      this.#turn = { zone, member, what, beganMs: nowMs };
    }
    if (policies.length === 0 || policies.some(({ mode }) => mode === "All" || mode === "None")) return;
    const leastMs = Math.min(...policies.map((one) => one.waitMs ?? Number.POSITIVE_INFINITY));
    const passedMs = nowMs - this.#beforeWentMs;
    if (passedMs + this.#skewMs() + roundingMs >= leastMs) return;
    const asked = Number.isFinite(leastMs) ? `${leastMs} ms are to pass` : "nobody can read how long to wait";
    this.#run.violate("S3", `${what} begins to go ${passedMs} ms after ${this.#before?.what} went, and ${asked}`);
  }
}
