/**
 * The invariants of suspended volumes, by the objects of the world.
 *
 * S1: a volume claim is removed only after its pod has been gone for its duration. It is never removed while a pod uses it,
 * while a hold keeps it, without a statement that it is drained, without a readable duration, or with the mode `None`. S2: a
 * user who wants a volume back before its removal begins keeps it under its uid; one who asks later is told so. K4 and Z1: the
 * ledger holds what is taken, and nothing of another zone beside it.
 */
import type { ObjectKey, Preconditions, Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import { ledgerName } from "../../../functions/shared/ledger/lease-name.ts";
import type { StoredObject, StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { Change } from "../../fake-cluster/watch-log.ts";
import { isUp, ordinalIn, setNameOf } from "../../support/checkers/raw.ts";
import type { Caller, Checker } from "../checker.ts";
import { readClaims } from "../claims/checker.ts";
import type { SeedRun } from "../seed.ts";
import { type Absences, underWayMs } from "./absences.ts";
import {
  annotationOf,
  durationMs,
  firstOf,
  hasOurFinalizer,
  isDeleted,
  isDrained,
  isOnHold,
  isWanted,
  modeOf,
  mountsOf,
  podOf,
  templates,
} from "./raw.ts";

/** Times have whole seconds. */
const roundingMs = 2_000;
/** Greatest step of all clocks, in both directions together, in milliseconds. */
const farMs = 2 * 400_000;
const claimsResource = "persistentvolumeclaims";

/** The pods that use a volume claim, and since when it has been in use or unused. */
interface Use {
  readonly by: Set<string>;
  sinceMs: number;
}

export class SuspensionChecker implements Checker {
  readonly invariants = ["S1", "S2", "K4", "Z1", "L1"];
  readonly #run: SeedRun;
  /** Uses, by the name of the volume claim. */
  readonly #uses = new Map<string, Use>();
  readonly #absences: Absences;
  /**
   * Uids of the volume claims whose removal one of our processes has begun. The same annotation by another client begins
   * nothing.
   */
  readonly #marked = new Set<string>();
  /** Uids of the volume claims that a user wanted back in time, and of those where it was too late. */
  readonly #pledged = new Set<string>();
  readonly #tooLate = new Set<string>();
  /**
   * Uids of the claims that a user wanted back when they were marked but another claim of their pod was not: both results are
   * right.
   */
  readonly #between = new Set<string>();
  /** Number of removed volume claims. Tests check it, because a run in which nothing happens proves nothing. */
  removed = 0;
  #last: Change<StoredObject> | undefined;

  constructor(run: SeedRun, absences: Absences) {
    this.#run = run;
    this.#absences = absences;
    const { store } = run.world;
    store.onChange(claimsResource, (change: Change<StoredObject>) => {
      this.#last = change;
      this.#claimChanged(change);
    });
    store.onChange("statefulsets", (change) => {
      this.#last = change as unknown as Change<StoredObject>;
    });
    store.onChange("pods", ({ current, final }) => this.#podChanged(current, final));
    store.onChange("events", ({ current }: Change<StoredObject>) => {
      if (current !== undefined) this.#reported(current as never);
    });
  }

  get #nowMs(): number {
    return this.#run.world.timeline.nowMs();
  }

  #podChanged(current: StoredPod | undefined, final: StoredPod): void {
    const { uid, namespace } = final.metadata;
    if (namespace !== this.#run.namespace) return;
    for (const claim of mountsOf(final)) {
      const use = this.#uses.get(claim) ?? { by: new Set<string>(), sinceMs: this.#nowMs };
      this.#uses.set(claim, use);
      const before = use.by.size;
      if (current === undefined) use.by.delete(uid);
      else use.by.add(uid);
      if (before === 0 || use.by.size === 0) if (before !== use.by.size) use.sinceMs = this.#nowMs;
    }
  }

  /** True if the claim has been in use for so long that every process that acts now knows it. */
  #isUsed(claim: string): boolean {
    const use = this.#uses.get(claim);
    return use !== undefined && use.by.size > 0 && this.#nowMs - use.sinceMs > underWayMs;
  }

  #claimChanged({ previous, current, final }: Change<StoredObject>): void {
    const { uid } = final.metadata;
    if (final.metadata.namespace !== this.#run.namespace) return;
    const [had, has] = [previous && annotationOf(previous, "recover"), current && annotationOf(current, "recover")];
    if (current === undefined || isDeleted(current) || has === undefined) this.#pledged.delete(uid);
    if (current === undefined) return;
    const isMarked = annotationOf(current, "suspend-state") === "Removing" || isDeleted(current);
    if (has === "true" && had !== "true") {
      if (!isMarked) this.#pledged.add(uid);
      else if (isDeleted(current)) this.#tooLate.add(uid);
      else this.#between.add(uid);
    }
    // A user who asks for the suspension again may also want the volume back again.
    const asks =
      annotationOf(current, "suspend") === "true" &&
      (previous === undefined || annotationOf(previous, "suspend") !== "true");
    if (asks || this.#pledged.has(uid)) for (const late of [this.#tooLate, this.#between]) late.delete(uid);
  }

  #reported({
    reason,
    involvedObject: { uid = "", name = "" } = {},
  }: {
    reason?: string;
    involvedObject?: { uid?: string; name?: string };
  }): void {
    if (reason === "VolumeRecovered" && this.#tooLate.has(uid))
      this.#run.violate(
        "S2",
        `${name} is reported to be recovered, although its removal had begun before a user wanted it back`,
      );
  }

  onPatched({ process, role }: Caller, resource: Resource, after: object): void {
    const change = this.#last;
    this.#last = undefined;
    const object = after as StoredObject;
    if (object.metadata.namespace !== this.#run.namespace) return;
    if (change?.previous === undefined || change.final.metadata.uid !== object.metadata.uid) return;
    if (resource === "statefulsets" && role.name === "suspender")
      this.#resized(process.name, change.previous as never, object as never);
    if (resource === claimsResource) this.#claimPatched(process.name, change.previous, object);
  }

  #resized(who: string, before: StoredStatefulSet, after: StoredStatefulSet): void {
    const { name } = after.metadata;
    if (after.spec.replicas >= before.spec.replicas) return;
    const what = `${who} makes ${name} smaller`;
    if (this.#absences.lately(name).every((set) => modeOf(set) === "None"))
      this.#run.violate("S1", `${what}, and its mode is None`);
    this.#checkLedger(what, name, (claim) => claim.kind === "scale-down");
    const { store } = this.#run.world;
    for (let ordinal = firstOf(before); ordinal < firstOf(before) + before.spec.replicas; ordinal++) {
      if (isWanted(after, ordinal)) continue;
      for (const template of templates.slice(0, this.#run.plan.suspension?.volumes)) {
        const key = { namespace: this.#run.namespace, name: `${template}-${name}-${ordinal}` };
        const claim = store.find(claimsResource, key);
        if (claim !== undefined && hasOurFinalizer(claim)) continue;
        // Our processes do not know yet of a claim that a user has just put in its place.
        if (this.#nowMs - Date.parse(claim?.metadata.creationTimestamp ?? "") < underWayMs) continue;
        this.#run.violate("S1", `${what}, and the volume claim ${key.name} has no finalizer of ours`);
      }
    }
  }

  /** The ledger holds a claim for what is taken, and none of another zone. */
  #checkLedger(what: string, zone: string, isOwn: (claim: ReturnType<typeof readClaims>[number]) => boolean): void {
    const { world, namespace, group, violate } = this.#run;
    // The process may not know yet that the StatefulSet has changed its group.
    const groups = this.#absences.lately(zone).map(({ metadata }) => metadata.labels?.["rollout-group"] ?? group);
    const ledgers = [...new Set(groups)].map((one) => {
      const lease = world.store.find("leases", { namespace, name: ledgerName(one) });
      return lease === undefined ? [] : readClaims(lease as never);
    });
    const own = ledgers.find((claims) => claims.some((claim) => claim.zone === zone && isOwn(claim)));
    if (own === undefined) violate("K4", `${what}, and the ledger holds no claim of that`);
    const other = own?.find((claim) => claim.zone !== zone);
    if (other !== undefined) violate("Z1", `${what}, and another zone has the claim ${other.line}`);
  }

  #claimPatched(who: string, before: StoredObject, after: StoredObject): void {
    const { name } = after.metadata;
    const state = annotationOf(before, "suspend-state");
    const now = annotationOf(after, "suspend-state");
    if (now === "Removing" && state !== "Removing") {
      this.#checkRemoval(`${who} begins to remove ${name}`, before);
      this.#marked.add(after.metadata.uid);
    }
    if (now === undefined || now === "Suspended") this.#marked.delete(after.metadata.uid);
    if (
      now === "Suspended" &&
      annotationOf(after, "suspended-at") !== annotationOf(before, "suspended-at") &&
      this.#isUsed(name)
    )
      this.#run.violate("S1", `${who} says that ${name} is not in use, and it is`);
    if (hasOurFinalizer(before) && !hasOurFinalizer(after)) this.#released(who, before, after);
    if (annotationOf(before, "recover") !== undefined && annotationOf(after, "recover") === undefined)
      this.#answered(who, before, after);
  }

  #checkRemoval(what: string, claim: StoredObject): void {
    const { violate } = this.#run;
    const sets = this.#absences.lately(setNameOf(podOf(claim)));
    const nowMs = this.#nowMs + this.skewMs();
    if (annotationOf(claim, "recover") !== undefined) violate("S2", `${what}, and a user wants it back`);
    if (annotationOf(claim, "suspend") !== "true") violate("S1", `${what}, and no user asks for that`);
    if (isOnHold(claim) || sets.every(isOnHold)) violate("S1", `${what}, and a hold keeps it`);
    if (!isDrained(claim, nowMs + 300_000)) violate("S1", `${what}, and no annotation says that it is drained`);
    if (sets.every((set) => modeOf(set) === "None")) violate("S1", `${what}, and the mode is None`);
    if (this.#isUsed(claim.metadata.name)) violate("S1", `${what}, and a pod uses it`);
    this.#checkAge(what, claim, sets);
    this.#checkLedger(what, setNameOf(podOf(claim)), ({ uids }) => isNamed(uids, claim));
  }

  #checkAge(what: string, claim: StoredObject, sets: readonly StoredStatefulSet[]): void {
    const all = sets.flatMap((set) => durationMs(claim, set) ?? []);
    const awayMs = this.#absences.awayMs(claim);
    if (all.length === 0) this.#run.violate("S1", `${what}, and no readable duration says how long it is to be kept`);
    else if (awayMs + this.skewMs() + roundingMs < Math.min(...all))
      this.#run.violate("S1", `${what}, and its pod has been away for ${awayMs} ms, not for ${Math.min(...all)}`);
  }

  #released(who: string, before: StoredObject, after: StoredObject): void {
    const { name } = after.metadata;
    if (!isDeleted(after)) return;
    const what = `${who} lets ${name} go, which is being deleted`;
    if (isOnHold(before)) this.#run.violate("S1", `${what}, and a hold keeps it`);
    // A deleted claim that no removal will ever take is released after its duration, counted from its deletion.
    const keptMs = this.#absences.lately(setNameOf(podOf(before))).flatMap((set) => durationMs(before, set) ?? []);
    const deletedMs = this.#nowMs - Date.parse(after.metadata.deletionTimestamp ?? "");
    const isOver = keptMs.length > 0 && deletedMs + this.skewMs() + roundingMs >= Math.min(...keptMs);
    if (annotationOf(before, "suspend-state") !== "Removing" && !isOver)
      this.#run.violate("S1", `${what}, and no process has begun to remove it`);
    if (this.#isUsed(name)) this.#run.violate("S1", `${what}, and a pod uses it`);
  }

  /** A wish that came in time must be fulfilled completely, and no answer may report a recovery that came too late. */
  #answered(who: string, before: StoredObject, after: StoredObject): void {
    const { name, uid } = after.metadata;
    const { store } = this.#run.world;
    const left = ["suspend", "drained-at", "suspend-state", "suspended-at", "suspend-pod-uid", "suspend-message"];
    const isCleared = left.every((one) => annotationOf(after, one) === undefined) && !hasOurFinalizer(after);
    if (isDeleted(before) || annotationOf(before, "recover") !== "true") return;
    if (annotationOf(before, "suspend-state") === "Removing") {
      // A claim whose pod a user has brought back meanwhile is kept after all.
      if (!isCleared && !this.#tooLate.has(uid) && !this.#between.has(uid))
        this.#run.violate("S2", `${who} answers that it is too late to recover ${name}, although it was not`);
      return;
    }
    if (!isCleared)
      this.#run.violate("S2", `${who} answers the wish to recover ${name}, although something of ours stays`);
    const pod = store.find("pods", { namespace: this.#run.namespace, name: podOf(after) });
    const cameLately = this.#nowMs - this.#absences.goneMs(podOf(after)) < underWayMs;
    if (annotationOf(before, "suspend-state") !== undefined && pod === undefined && !cameLately)
      this.#run.violate("S2", `${who} reports that ${name} is recovered, although its pod is not there`);
  }

  /** Checks a deletion by one of our processes that its conditions let through. */
  onDeletionArrived({ process, role }: Caller, resource: Resource, key: ObjectKey, conditions: Preconditions): void {
    if (resource !== claimsResource || key.namespace !== this.#run.namespace) return;
    const { violate, world } = this.#run;
    const claim = world.store.find(claimsResource, key);
    if (claim === undefined || isDeleted(claim)) return;
    const { uid, resourceVersion } = claim.metadata;
    if ((conditions.uid ?? uid) !== uid || (conditions.resourceVersion ?? resourceVersion) !== resourceVersion) return;
    const what = `${process.name} deletes ${key.name}`;
    this.removed++;
    if (role.name !== "collector") violate("S1", `${what}, although only collectors may`);
    if (!this.#marked.has(uid)) violate("S1", `${what}, whose removal none of us has begun`);
    if (this.#pledged.has(uid)) violate("S2", `${what}, and a user wanted it back in time`);
    if (isOnHold(claim)) violate("S1", `${what}, and a hold keeps it`);
    if (this.#isUsed(key.name)) violate("S1", `${what}, and a pod uses it`);
    this.#checkLedger(what, setNameOf(podOf(claim)), ({ uids }) => isNamed(uids, claim));
  }

  /** Greatest difference between two clocks, one of which has stamped what the other reads. */
  skewMs(): number {
    const { every, skewMs, farAheadMs } = this.#run.plan;
    // The API server's clock writes the stamps. If it steps back by minutes, a duration seems over that much sooner. A clock
    // that is only ever ahead ends no duration sooner.
    return 2 * (every.clock > 0 ? 14_000 : skewMs) + (every.farClock > 0 && farAheadMs === undefined ? farMs : 0);
  }

  /** L1: requests are carried out, and volumes that users want back are there. */
  missing(): string | undefined {
    const { world, namespace } = this.#run;
    const { items } = world.store.list(claimsResource, { namespace });
    const claims: readonly StoredObject[] = items;
    // A member goes only if each of its volume claims asks for it.
    const stays = new Set(claims.filter((one) => annotationOf(one, "suspend") !== "true").map(podOf));
    for (const claim of claims) {
      const { name } = claim.metadata;
      const pod = podOf(claim);
      const set = world.store.find("statefulsets", { namespace, name: setNameOf(pod) });
      // A claim that another client deleted while its pod came back stays for as long as that pod uses it, without our
      // finalizer.
      if (isDeleted(claim) && !hasOurFinalizer(claim) && this.#isUsed(name)) continue;
      if (isDeleted(claim)) return `${name} is being deleted, and is not gone`;
      if (annotationOf(claim, "recover") !== undefined) return `a user wants ${name} back, and receives nothing`;
      const isAsked = !stays.has(pod);
      const isBegun = hasOurFinalizer(claim) || annotationOf(claim, "suspend-state") !== undefined;
      if (!isAsked && isBegun) return `no user asks that ${name} goes, and it is suspended`;
      if (!isAsked || set === undefined) continue;
      const above = claims.filter((one) => setNameOf(podOf(one)) === setNameOf(pod) && isAbove(one, claim));
      const isTop = above.every((one) => !stays.has(podOf(one)) || !isWanted(set, ordinalIn(podOf(one))));
      if (isTop || !isWanted(set, ordinalIn(pod))) return `${name} must go, and still exists`;
      const stands = world.store.find("pods", { namespace, name: pod });
      if (stands === undefined || !isUp(stands))
        return `${pod} must stay because of the members above it, and is not there`;
    }
    return undefined;
  }
}

function isNamed(uids: Readonly<Record<string, string>> | undefined, { metadata }: StoredObject): boolean {
  return uids?.[metadata.name] === metadata.uid;
}

function isAbove(one: StoredObject, other: StoredObject): boolean {
  return ordinalIn(podOf(one)) > ordinalIn(podOf(other));
}
