/**
 * The invariants of owners whose pods have stop hooks, by the objects of the world.
 *
 * M1: our finalizer goes only when every member pod has had the label for as long as a node takes to show it, or when the
 * deadline has passed and the owner says so. A marker creates only Events. It labels neither pods of other owners nor pods of
 * an owner that is neither deleted nor stopped.
 */
import type { Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredObject, StoredPod } from "../../fake-cluster/objects.ts";
import type { Change } from "../../fake-cluster/watch-log.ts";
import type { Caller, Checker } from "../checker.ts";
import type { SeedRun } from "../seed.ts";
import type { Listed, Markers } from "./markers.ts";
import {
  annotationOf,
  askedLabel,
  controllerUid,
  deadlineMs,
  hasAsked,
  hasOurFinalizer,
  isDeleted,
  ourFinalizer,
  quorum,
} from "./owners.ts";
import { hasStarted, hookedNamespace } from "./stop-hooks.ts";

/** Greatest age of a state that a process acts on, in milliseconds: a call takes at most ten seconds. */
const underWayMs = 30_000;
/** Time for which a stopped process may not know of a user's change, in milliseconds. */
const stoppedMs = 60_000;
/** Longest time between the stamp of a label, which is made when it is sent, and its arrival, in milliseconds. */
const arrivingMs = 10_000;
/** Times have whole seconds. */
const roundingMs = 2_000;

/** When an owner's pods were first to stop, and until when; in milliseconds since the epoch. */
interface LetGo {
  sinceMs: number;
  untilMs: number;
}

interface Released {
  readonly owner: StoredObject;
  readonly isLate: boolean;
  /** The pods that the release was decided on. */
  readonly pods: ReadonlyMap<string, StoredPod>;
}

export class SkipLabelChecker implements Checker {
  readonly invariants = ["M1", "L1"];
  /** Owners whose pods must stop, by uid. */
  readonly #letGo = new Map<string, LetGo>();
  /** The controller of each StatefulSet, by the StatefulSet's uid; and the controller that it lost last, with the time. */
  readonly #above = new Map<string, string | undefined>();
  readonly #lost = new Map<string, { readonly uid: string; readonly atMs: number }>();
  readonly #released = new Map<string, Released>();
  /** When the label of each pod was sent, which is when it was stamped; by the pod's uid. */
  readonly #stampedMs = new Map<string, number>();
  /**
   * The owners for which each pod was labelled, by the pod's uid. Pods that `--cascade=orphan` leaves keep their labels under
   * the next owner.
   */
  readonly #labelledFor = new Map<string, readonly string[]>();
  /** Pods whose labels a user has changed, by uid. */
  readonly #touched = new Set<string>();
  /** Names of the owners that are deleted after the last trouble, by uid. */
  readonly #lastly = new Map<string, string>();
  readonly #run: SeedRun;
  readonly #markers: Markers;
  #last: Change<StoredObject> | undefined;

  constructor(run: SeedRun, markers: Markers) {
    this.#run = run;
    this.#markers = markers;
    const { store } = run.world;
    for (const resource of ["rabbitmqclusters", "statefulsets"] as const)
      store.onChange(resource, (change: Change<StoredObject>) => this.#ownerChanged(change));
    store.onChange("namespaces", () => {
      for (const owner of this.owners()) this.#note(owner);
    });
    store.onChange("pods", (change: Change<StoredPod>) => {
      this.#last = change;
      this.#podChanged(change);
    });
  }

  /** All objects that may be owners. */
  owners(): readonly StoredObject[] {
    const { store } = this.#run.world;
    const query = { namespace: hookedNamespace };
    return [...store.list("rabbitmqclusters", query).items, ...store.list("statefulsets", query).items];
  }

  /** A user changes labels of a pod, or has done so. */
  touch(uid: string): void {
    this.#touched.add(uid);
  }

  onWritten({ process, role }: Caller, verb: string, resource: Resource): void {
    if (role.name === "marker" && verb === "create" && resource !== "events")
      this.#run.violate("M1", `${process.name} creates one of ${resource}, and a marker may create only Events`);
    if (role.name === "marker" && verb === "delete")
      this.#run.violate("M1", `${process.name} deletes one of ${resource}`);
  }

  onPatched({ process, role }: Caller, _: Resource, after: object, body: object): void {
    const change = this.#last;
    this.#last = undefined;
    if (role.name !== "marker" || change?.previous === undefined) return;
    const object = after as StoredObject;
    if (change.final.metadata.uid !== object.metadata.uid || object.metadata.namespace !== hookedNamespace) return;
    if (object.kind === "Pod") this.#podPatched(process.name, change.previous as StoredPod, object as StoredPod, body);
    else this.#ownerPatched(process.name, change.previous, object, body);
  }

  #podPatched(who: string, before: StoredPod, after: StoredPod, body: object): void {
    const [had, has] = [before, after].map(hasStamp);
    const name = after.metadata.name;
    this.#checkLabels(who, before, after);
    if (has) this.#labelledFor.set(after.metadata.uid, this.chainOf(after));
    if (has) this.#stampedMs.set(after.metadata.uid, this.#markers.groundsOf(body)?.sentMs ?? 0);
    const states = this.chainOf(after).flatMap((uid) => this.#letGo.get(uid) ?? []);
    const nowMs = this.#run.world.timeline.nowMs();
    if (has && !states.some(({ untilMs }) => nowMs - untilMs < this.#lateMs()))
      this.#run.violate("M1", `${who} labels ${name}, and no owner above it is deleted or stopped`);
    const stands = states.some(({ sinceMs, untilMs }) => untilMs > nowMs && nowMs - sinceMs > this.#lateMs());
    if (had && !has && stands) this.#run.violate("M1", `${who} takes the label of ${name}, which is to stop`);
  }

  /** A process may add a label, and may remove only the label that the pod's stamp names. */
  #checkLabels(who: string, before: StoredPod, after: StoredPod): void {
    const [, ours] = (annotationOf(before, "skip-labelled-at") ?? "").split(" ");
    for (const [key, text] of Object.entries(before.metadata.labels ?? {})) {
      const now = after.metadata.labels?.[key];
      if (now !== text && !(now === undefined && key === ours))
        this.#run.violate("M1", `${who} changes the label ${key} of ${after.metadata.name}, which it has not added`);
    }
  }

  #ownerPatched(who: string, before: StoredObject, after: StoredObject, body: object): void {
    const { violate, world } = this.#run;
    const { name, uid } = before.metadata;
    const others = ({ metadata }: StoredObject) => metadata.finalizers?.filter((one) => one !== ourFinalizer).join();
    if ((others(before) ?? "") !== (others(after) ?? ""))
      violate("M1", `${who} changes the finalizers of others on ${name}: ${others(before)} to ${others(after)}`);
    if (!hasOurFinalizer(before) || hasOurFinalizer(after) || askedLabel(before) === undefined) return;
    if (!isDeleted(before)) violate("M1", `${who} takes the finalizer of ${name}, which is not deleted`);
    else if (before.metadata.finalizers?.includes("orphan") !== true) {
      const grounds = this.#markers.groundsOf(body);
      const whys = (grounds?.lists ?? []).map((list) => this.#whyNot(before, list));
      const isLate = whys.length === 0 || whys.every((why) => why !== undefined);
      const why = whys.at(-1) ?? "the marker has not looked at its pods";
      if (isLate) this.#checkLate(who, before, why);
      const revision = grounds?.lists.at(-1)?.revision ?? world.store.revision;
      const pods = new Map(this.#membersAsOf(before, revision).map((pod) => [pod.metadata.uid, pod]));
      this.#released.set(uid, { owner: before, isLate, pods });
    }
  }

  /** Why an owner must not be released by what a LIST has shown; undefined if it may. */
  #whyNot(owner: StoredObject, { revision, answeredMs }: Listed): string | undefined {
    const { world, plan } = this.#run;
    const nowMs = world.timeline.nowMs();
    if (nowMs - answeredMs > underWayMs) return `its pods were listed ${nowMs - answeredMs} ms ago`;
    const waitMs = (plan.skipLabels?.waitMs ?? 0) - this.#skewMs() - roundingMs;
    for (const pod of this.#membersAsOf(owner, revision)) {
      const { name } = pod.metadata;
      if (!hasAsked(owner, pod)) return `${name} has no label`;
      const stampedMs = this.#stampedMs.get(pod.metadata.uid) ?? nowMs;
      if (pod.status.phase === "Running" && nowMs - stampedMs < waitMs && !this.#touched.has(pod.metadata.uid))
        return `${name} has had the label for ${nowMs - stampedMs} ms`;
    }
    return undefined;
  }

  /** Checks a release before all labels are shown: the deadline must have passed, and the owner must say what was not done. */
  #checkLate(who: string, owner: StoredObject, why: string): void {
    const { world, violate } = this.#run;
    const { name, uid, deletionTimestamp = "" } = owner.metadata;
    const what = `${who} lets ${name} go, and ${why}`;
    const sinceMs = world.timeline.nowMs() - Date.parse(deletionTimestamp);
    if (sinceMs + this.#skewMs() + roundingMs < deadlineMs(owner))
      violate("M1", `${what}, ${sinceMs} ms after its deletion`);
    else if (!reportsLate(annotationOf(owner, "skip-status"))) violate("M1", `${what}, and it does not say so`);
    else if (!this.#markers.warned.has(uid) && !this.#isEnding()) violate("M1", `${what}, and no Warning came`);
  }

  /** The pods of a revision that are not terminating, and whose controllers led to the owner then and still do. */
  #membersAsOf({ metadata: { uid } }: StoredObject, revision: number): readonly StoredPod[] {
    const { store } = this.#run.world;
    const then = store.statefulSetsAsOf(hookedNamespace, revision);
    const stand = new Set(then.map(({ metadata }) => metadata.uid));
    const now = store.list("statefulsets", { namespace: hookedNamespace }).items.map(({ metadata }) => metadata.uid);
    const followed = new Set(now.filter((set) => stand.has(set) && this.#above.get(set) === uid));
    return store.podsAsOf(hookedNamespace, revision).filter((pod) => {
      const above = controllerUid(pod);
      return !isDeleted(pod) && above !== undefined && (above === uid || followed.has(above));
    });
  }

  /** Uids of the controllers above a pod, including the one that its StatefulSet has only just lost. */
  chainOf(pod: StoredPod): readonly string[] {
    const first = controllerUid(pod);
    const second = first === undefined ? undefined : this.#above.get(first);
    const lost = first === undefined ? undefined : this.#lost.get(first);
    const isLate = lost !== undefined && this.#run.world.timeline.nowMs() - lost.atMs > this.#lateMs();
    return [first, second, isLate ? undefined : lost?.uid].filter((uid) => uid !== undefined);
  }

  #ownerChanged(change: Change<StoredObject>): void {
    const { current, final } = change;
    if (final.metadata.namespace !== hookedNamespace) return;
    this.#last = change;
    if (final.kind === "StatefulSet") this.#noteAbove(final);
    if (current !== undefined) this.#note(current);
    else this.#end(final.metadata.uid);
  }

  #noteAbove(set: StoredObject): void {
    const { uid } = set.metadata;
    const [before, now] = [this.#above.get(uid), controllerUid(set)];
    if (before !== undefined && before !== now)
      this.#lost.set(uid, { uid: before, atMs: this.#run.world.timeline.nowMs() });
    this.#above.set(uid, now);
  }

  #note(owner: StoredObject): void {
    const { uid } = owner.metadata;
    const isStopping = isDeleted(owner) || annotationOf(owner, "stop-all") === "true" || this.#isEnding();
    if (!isStopping || askedLabel(owner) === undefined) this.#end(uid);
    else if (this.#letGo.get(uid)?.untilMs !== Number.POSITIVE_INFINITY)
      this.#letGo.set(uid, { sinceMs: this.#run.world.timeline.nowMs(), untilMs: Number.POSITIVE_INFINITY });
  }

  #end(uid: string): void {
    const state = this.#letGo.get(uid);
    if (state?.untilMs === Number.POSITIVE_INFINITY) state.untilMs = this.#run.world.timeline.nowMs();
  }

  /** A pod that goes because its owner was released must see its label: its node has had the time for that. */
  #podChanged({ previous, current }: Change<StoredPod>): void {
    if (current === undefined || previous === undefined || !isDeleted(current) || isDeleted(previous)) return;
    const { plan, stopHooks, violate } = this.#run;
    const hook = stopHooks.find(current);
    const owner = this.chainOf(current).find((uid) => this.#released.has(uid));
    const released = owner === undefined ? undefined : this.#released.get(owner);
    const listed = released?.pods.get(current.metadata.uid);
    if (hook === undefined || released === undefined || listed === undefined || released.isLate) return;
    if (hook.isShown || !hasStarted(listed) || isDeleted(listed) || this.#touched.has(current.metadata.uid)) return;
    if (hook.lagMs > (plan.skipLabels?.waitMs ?? 0) - this.#skewMs() - roundingMs - arrivingMs) return;
    const { name } = released.owner.metadata;
    violate("M1", `${current.metadata.name} ends and sees no label, though ${name} was let go, and its node had time`);
  }

  #isEnding(): boolean {
    const key = { namespace: "", name: hookedNamespace };
    return this.#run.world.store.find("namespaces", key)?.metadata.deletionTimestamp !== undefined;
  }

  /** Greatest difference between two clocks, one of which has stamped what the other reads. */
  #skewMs(): number {
    const { every, skewMs } = this.#run.plan;
    return 2 * (every.clock > 0 ? 14_000 : skewMs);
  }

  #lateMs(): number {
    return underWayMs + (this.#run.plan.every.stopProcess > 0 ? stoppedMs : 0);
  }

  /** L1: every deleted owner is released, every pod that must stop has the label, and no other pod has it. */
  missing(): string | undefined {
    for (const [uid, name] of this.#lastly)
      if (this.#released.get(uid)?.isLate === true) return `${name} is let go by its deadline, and nothing had failed`;
    for (const owner of this.owners()) {
      const { name, uid, finalizers = [] } = owner.metadata;
      const isAsking = askedLabel(owner) !== undefined;
      const isStopping = annotationOf(owner, "stop-all") === "true";
      const pods = this.#membersAsOf(owner, this.#run.world.store.revision);
      if (isDeleted(owner) && hasOurFinalizer(owner)) return `${name} is deleted, and still held`;
      if (isDeleted(owner) && pods.length > 0 && finalizers.length > 0) return `${name} is deleted, and has pods`;
      if (isDeleted(owner)) continue;
      if (isAsking !== hasOurFinalizer(owner)) return `${name} ${isAsking ? "has no" : "still has our"} finalizer`;
      const bare = pods.find((pod) => !hasAsked(owner, pod));
      if (isAsking && isStopping && bare !== undefined) return `${bare.metadata.name} is to stop, and has no label`;
      const left = pods.find((pod) => this.#labelledFor.get(pod.metadata.uid)?.includes(uid) && hasStamp(pod));
      const mayBeOwner = owner.kind === "RabbitmqCluster" || name === quorum;
      if (mayBeOwner && !isStopping && left !== undefined && !this.#touched.has(left.metadata.uid))
        return `${left.metadata.name} of ${name} stays, and has a label of ours`;
      if (!isStopping && this.#letGo.get(uid)?.untilMs === Number.POSITIVE_INFINITY) return `${name} is let go`;
    }
    return undefined;
  }

  /** Notes an owner that is deleted after the last trouble. */
  lastOf({ metadata: { uid, name } }: StoredObject): void {
    this.#lastly.set(uid, name);
  }
}

function hasStamp(pod: StoredPod): boolean {
  return annotationOf(pod, "skip-labelled-at") !== undefined;
}

function reportsLate(text: string | undefined): boolean {
  try {
    const { guard, sentence } = JSON.parse(text ?? "") as Record<string, unknown>;
    return guard === "deadline-passed" && typeof sentence === "string" && sentence !== "";
  } catch {
    return false;
  }
}
