/**
 * The invariants of claims, stated again without the product's code, over the text of the ledger and the objects of the world.
 *
 * K1: a claim leaves the ledger only when what it was made for is over. K2: only its own function changes or drops a claim;
 * the others keep it byte for byte. K3: no function takes a pod that another one has claimed. K4: nothing is done without a
 * claim in the ledger. Z1 and Z2: claimed pods count as down, and their zone as not whole. D1: no pod leaves that was not told
 * so. D2: no pod that stays still believes that it leaves.
 */
import type { LeaseObject, ObjectKey, Preconditions, Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import type { SeenView } from "../../support/checkers/ledger-write.ts";
import type { Past } from "../../support/checkers/past.ts";
import {
  isUp,
  ordinalIn,
  type Reserved,
  rolloutLimit,
  setNameOf,
  upSinceMs,
  wantsOrdinal,
} from "../../support/checkers/raw.ts";
import type { Caller, Checker, LedgerWrite } from "../checker.ts";
import type { Apps } from "./apps.ts";
import { downIn, isDownAlready } from "./down.ts";
import { names, ordinalsOf, type Raw } from "./raw.ts";
import { takerName, volumeOf, why } from "./taker.ts";

interface Known {
  readonly claim: Raw;
  /** When the ledger first held the claim, and when its purpose was last seen to be over. */
  readonly firstMs: number;
  /** Since when it has named each pod by its uid. */
  readonly namedMs: ReadonlyMap<string, number>;
  overMs: number;
  /** The anchor has named the claim: before that, a missing name proves nothing. */
  wasAnchored: boolean;
}

export interface ClaimsCheckerOptions {
  readonly world: World;
  readonly apps: Apps;
  readonly namespace: string;
  readonly ledger: string;
  /** The rollout-group of the ledger, and the recent states of its StatefulSets. */
  readonly group: string;
  readonly past: Pick<Past, "stood" | "states">;
  /** Function of each process that makes claims, by the name of the process. */
  readonly functions: ReadonlyMap<string, string>;
  readonly violate: (invariant: string, message: string) => void;
}

/** What was over when the function checked may have changed again before it writes. */
const checkedWithinMs = 30_000;
/** A deletion that was decided before a claim was written may still be on its way. */
const decidedWithinMs = 20_000;
/** Its claims also end when a restart has failed or is withdrawn, which the processes of the pods show (P1 to P6). */
const restartsBy = "advance-process-restart";
/** The shipped functions that make claims, by the names of their roles. */
export const shippedTakers: ReadonlyMap<string, string> = new Map([
  ["follower", "follow-replicas"],
  ["delayer", "prepare-delayed-downscale"],
  ["preparer", "prepare-downscale"],
  ["releaser", "prepare-downscale"],
  ["suspender", "suspend-group"],
  ["collector", "gc-suspended-groups"],
  ["fencer", "fence-node"],
  ["restarter", restartsBy],
]);
/** A review joins the claim that a change belongs to, also that of another function, and renews its stamp (rule R19). */
const joiner = "prepare-downscale";
/** An anchor is written this long after its claim at most, or never. */
const anchoredWithinMs = 100_000;

export function readClaims({ metadata }: Pick<LeaseObject, "metadata">): Raw[] {
  const lines = (metadata.annotations?.["sluice.dev/claims"] ?? "").split("\n").filter((line) => line !== "");
  return lines.map((line) => ({ ...(JSON.parse(line) as Omit<Raw, "line">), line }));
}

export class ClaimsChecker implements Checker {
  readonly invariants = ["K1", "K2", "K3", "K4", "Z1", "Z2", "D1", "D2"];
  readonly #options: ClaimsCheckerOptions;
  readonly #known = new Map<string, Known>();
  #uid: string | undefined;

  constructor(options: ClaimsCheckerOptions) {
    this.#options = options;
    const observe = () => this.#observe();
    for (const resource of ["pods", "statefulsets", "leases", "persistentvolumeclaims"] as const)
      options.world.store.onChange(resource, observe);
  }

  #isOfLedger({ metadata: { namespace, name } }: LeaseObject): boolean {
    return name === this.#options.ledger && namespace === this.#options.namespace;
  }

  #observe(): void {
    const nowMs = this.#options.world.timeline.nowMs();
    for (const known of this.#known.values()) if (this.#isOver(known)) known.overMs = nowMs;
  }

  /** Called when a user or a later version has written the ledger. */
  onLedgerEdited(lease: LeaseObject): void {
    if (!this.#isOfLedger(lease)) return;
    const nowMs = this.#options.world.timeline.nowMs();
    const claims = readClaims(lease);
    const ids = new Set(claims.map(({ id }) => id));
    for (const id of [...this.#known.keys()]) if (!ids.has(id)) this.#known.delete(id);
    for (const claim of claims) this.#note(claim, nowMs);
    this.#uid = lease.metadata.uid;
  }

  /** Checks one write of the ledger by a process: how it changed the claims, and what it reserved beside them. */
  onLedgerWritten({ caller: { process, role }, lease, all, made, seen: view }: LedgerWrite): void {
    if (!this.#isOfLedger(lease)) return;
    if (lease.metadata.uid !== this.#uid) {
      this.onLedgerEdited(lease);
      return;
    }
    const claims = readClaims(lease);
    const shipped = shippedTakers.get(role.name);
    this.#checkKept(shipped ?? this.#options.functions.get(process.name) ?? process.name, claims);
    const fresh = claims.filter(({ id }) => !this.#known.has(id));
    const nowMs = this.#options.world.timeline.nowMs();
    for (const claim of claims) this.#note(claim, nowMs);
    if (view === undefined) return;
    for (const reservation of made) this.#checkTaken(reservation, claims, all, view);
    for (const claim of fresh) if (claim.terms === "asked") this.#checkAsked(claim, claims, all, view);
  }

  #note(claim: Raw, nowMs: number): void {
    const before = this.#known.get(claim.id);
    const known: Known = {
      claim,
      firstMs: before?.firstMs ?? nowMs,
      namedMs: new Map(Object.values(claim.uids ?? {}).map((uid) => [uid, before?.namedMs.get(uid) ?? nowMs])),
      overMs: before?.overMs ?? Number.NEGATIVE_INFINITY,
      wasAnchored: before?.wasAnchored ?? false,
    };
    this.#known.set(claim.id, known);
    if (this.#isOver(known)) known.overMs = nowMs;
  }

  #checkKept(by: string, claims: readonly Raw[]): void {
    const nowMs = this.#options.world.timeline.nowMs();
    const now = new Map(claims.map((claim) => [claim.id, claim]));
    for (const [id, known] of this.#known) {
      const { claim, overMs } = known;
      const line = now.get(id)?.line;
      if (line === claim.line) continue;
      const what = line === undefined ? "dropped" : "changed";
      if (claim.by !== by && !(by === joiner && isRenewed(claim.line, line)))
        this.#options.violate("K2", `${by} has ${what} the claim ${claim.line}`);
      if (line !== undefined) continue;
      this.#known.delete(id);
      const wasOver = nowMs - overMs <= checkedWithinMs || this.#isOver(known);
      if (!wasOver && claim.by !== restartsBy) this.#options.violate("K1", `${claim.line} is dropped, and is not over`);
    }
  }

  /** Checks a healthy pod that a rollout or an eviction has reserved, by the view of its decision. */
  #checkTaken(made: Reserved, claims: readonly Raw[], all: readonly Reserved[], view: SeenView): void {
    if (claims.length === 0) return;
    const pod = view.pod(`${made.set}-${made.ordinal}`);
    const set = view.members.find(({ metadata }) => metadata.name === made.set);
    const what = `${made.by} reserves ${made.set}-${made.ordinal}`;
    const claim = claims.find((one) => one.zone === made.set && names(one, made.ordinal));
    if (claim !== undefined) this.#options.violate("K3", `${what}, which is of the claim ${claim.line}`);
    if (pod === undefined || set === undefined || pod.metadata.uid !== made.uid || !isUp(pod)) return;
    const other = claims.find(({ zone }) => zone !== made.set);
    if (other !== undefined) this.#options.violate("Z1", `${what}, and another zone has the claim ${other.line}`);
    this.#checkLimit(what, set, claims, all, view);
  }

  /** A claim whose terms are `asked` is within the budget, and every other zone is whole (rule R17). */
  #checkAsked(claim: Raw, claims: readonly Raw[], all: readonly Reserved[], view: SeenView): void {
    const what = `${claim.by} claims ${claim.line}`;
    const set = view.members.find(({ metadata }) => metadata.name === claim.zone);
    if (set === undefined || (claim.kind === "process" && isDownAlready(claim, set, view))) return;
    const others = view.members.filter(({ metadata }) => metadata.name !== claim.zone);
    const down = others.flatMap((one) => [...downIn(one, claims, all, view)]);
    const taken = claims.find(({ zone }) => zone !== claim.zone);
    if (down.length > 0 || taken !== undefined)
      this.#options.violate("Z1", `${what} while ${taken?.line ?? down.join(", ")} is in another zone`);
    // The budget for disruptions does not limit pods that leave for good; rollout-operator does the same.
    const isLimited = claim.kind !== "volume" && ![...shippedTakers.values()].some((by) => by === claim.by);
    if (isLimited) this.#checkLimit(what, set, claims, all, view);
  }

  #checkLimit(
    what: string,
    set: StoredStatefulSet,
    claims: readonly Raw[],
    all: readonly Reserved[],
    view: SeenView,
  ): void {
    const down = downIn(set, claims, all, view);
    if (down.size > rolloutLimit(set))
      this.#options.violate("Z2", `${what} while ${[...down].join(", ")} count as down`);
  }

  /** K3 without a reservation: a rollout repairs a broken pod. */
  onDeletionSent(
    { process }: Caller,
    resource: Resource,
    { namespace, name }: ObjectKey,
    { uid }: Preconditions,
  ): void {
    if (resource !== "pods" || namespace !== this.#options.namespace) return;
    const nowMs = this.#options.world.timeline.nowMs();
    for (const { claim, firstMs, namedMs } of this.#known.values()) {
      // A claim does not cover the broken replacement of a pod that it names (rule R18), before it names that as well.
      if ((claim.uids?.[name] ?? uid) !== uid) continue;
      const sinceMs = namedMs.get(uid ?? "") ?? firstMs;
      if (claim.zone !== setNameOf(name) || !names(claim, ordinalIn(name)) || nowMs - sinceMs < decidedWithinMs)
        continue;
      if (this.#hasMoved(claim)) continue;
      this.#options.violate("K3", `${process.name} deletes ${name}, which is of the claim ${claim.line}`);
    }
  }

  /**
   * True if a user has given the StatefulSet to another group, whose rollouts do not know this ledger. They take its pods only
   * when everything that was decided by this ledger must have arrived (rule R4).
   */
  #hasMoved({ zone }: Raw): boolean {
    const { past, group } = this.#options;
    return past.stood(zone, decidedWithinMs, ({ metadata }) => metadata.labels?.["rollout-group"] !== group);
  }

  /** K4: a function did something to a pod or to a volume under the claim of that id. */
  onActed(id: string, name: string): void {
    if (!this.#known.has(id)) this.#options.violate("K4", `${name} is taken, and the ledger holds no claim ${id}`);
  }

  /** K4: the deletion of an object that plays a volume claim has arrived. */
  onDeletionArrived({ role }: Caller, _resource: Resource, { name }: ObjectKey, { uid }: Preconditions): void {
    if (role.name !== takerName || !name.startsWith(volumeOf(""))) return;
    const { world, namespace } = this.#options;
    if (world.store.find("leases", { namespace, name })?.metadata.uid !== uid) return;
    const isClaimed = [...this.#known.values()].some(
      ({ claim }) => claim.kind === "volume" && claim.uids?.[name] !== undefined,
    );
    if (!isClaimed) this.#options.violate("K4", `${name} is removed, and the ledger holds no claim of it`);
  }

  /** D1 and K4: a scale-down has changed a size. */
  onPatched({ role }: Caller, resource: Resource, after: object): void {
    if (role.name === takerName && resource === "statefulsets") this.#checkScaled(after as StoredStatefulSet);
  }

  #checkScaled(set: StoredStatefulSet): void {
    const { world, apps, past } = this.#options;
    // A pod that a user scaled away before may still exist. This scale-down does not have to tell it.
    const [, before = set] = past.states(set.metadata.name, 1);
    const claimed = [...this.#known.values()].map(({ claim }) => claim).filter(({ kind }) => kind === "scale-down");
    for (const pod of world.store.ownedBy("pods", set.metadata.uid)) {
      const { name, uid, deletionTimestamp } = pod.metadata;
      if (deletionTimestamp !== undefined || wantsOrdinal(set, ordinalIn(name)) || !isUp(pod)) continue;
      if (before !== set && !wantsOrdinal(before, ordinalIn(name))) continue;
      if (!apps.prepared.has(uid)) this.#options.violate("D1", `${name} leaves and was never told so`);
      const isClaimed = claimed.some((claim) => claim.zone === set.metadata.name && names(claim, ordinalIn(name)));
      if (!isClaimed) this.#options.violate("K4", `${name} leaves, and the ledger holds no claim of it`);
    }
  }

  /** What claims still need before the world is done. */
  missing(): string | undefined {
    const { world, apps, namespace, ledger } = this.#options;
    const lease = world.store.find("leases", { namespace, name: ledger });
    const [claim] = lease === undefined ? [] : readClaims(lease as never);
    if (claim !== undefined) return `the ledger holds ${claim.line}`;
    const pods = world.store.list("pods", { namespace }).items;
    const left = pods.find(({ metadata: { uid, name, deletionTimestamp } }) => {
      const set = world.store.find("statefulsets", { namespace, name: setNameOf(name) });
      const stays = set !== undefined && wantsOrdinal(set, ordinalIn(name)) && deletionTimestamp === undefined;
      return stays && apps.prepared.has(uid);
    });
    return left === undefined ? undefined : `pod ${left.metadata.name} stays and believes that it leaves (D2)`;
  }

  #isOver(known: Known): boolean {
    const { claim, firstMs } = known;
    const { world, namespace, apps } = this.#options;
    const set = world.store.find("statefulsets", { namespace, name: claim.zone });
    const pods = world.store.list("pods", { namespace }).items.filter(({ metadata: { name } }) => {
      return setNameOf(name) === claim.zone && names(claim, ordinalIn(name));
    });
    const uids = claim.uids ?? {};
    if (claim.kind === "scale-down") {
      const staying = pods.filter(({ metadata }) => set !== undefined && wantsOrdinal(set, ordinalIn(metadata.name)));
      if (staying.length > 0) return staying.every(({ metadata }) => !apps.prepared.has(metadata.uid));
      const isWanted = set !== undefined && ordinalsOf(claim).some((ordinal) => wantsOrdinal(set, ordinal));
      return isWanted || pods.length === 0;
    }
    if (this.#isAnchored(claim)) known.wasAnchored = true;
    // The first mark of a shipped volume is refused for certain or arrives. A function that knows of the refusal need not
    // wait.
    else if (claim.anchor?.resource === "persistentvolumeclaims") return true;
    else if (known.wasAnchored || world.timeline.nowMs() - firstMs > anchoredWithinMs) return true;
    if (claim.kind === "volume") {
      return Object.entries(uids).every(([name, uid]) => {
        const volume = world.store.find(claim.anchor?.resource ?? "leases", { namespace, name });
        return volume?.metadata.uid !== uid || isLost(volume);
      });
    }
    const back = pods.filter((pod) => {
      const isSame = uids[pod.metadata.name] === pod.metadata.uid;
      const runsAnew = claim.containers !== undefined && !runsOneOf(pod, claim.containers[pod.metadata.name]);
      const isAnew = () => claim.kind === "process" && isRestarted(pod, known, apps);
      return isUp(pod) && (!isSame || runsAnew || isAnew());
    });
    const wanted = set === undefined ? [] : ordinalsOf(claim).filter((ordinal) => wantsOrdinal(set, ordinal));
    return back.length === pods.length && pods.length >= wanted.length;
  }

  #isAnchored({ anchor, id }: Raw): boolean {
    const { world } = this.#options;
    if (anchor === undefined) return false;
    const { namespace = this.#options.namespace, name } = anchor;
    const object = world.store.find(anchor.resource, { namespace, name });
    if (object === undefined || (anchor.resource === "persistentvolumeclaims" && isLost(object))) return false;
    // Several claims of one fence share its record.
    return object.metadata.annotations?.[anchor.annotation ?? why] === id.split("/")[0];
  }
}

/** True for a pod whose program has restarted since the claim was made: by the program itself, where the claim names it. */
function isRestarted(pod: StoredPod, { claim: { processes }, firstMs }: Known, apps: Apps): boolean {
  if (processes === undefined) return (upSinceMs(pod) ?? 0) >= firstMs - 1_000;
  const process = apps.processOf(pod.metadata.uid);
  return process !== undefined && process !== processes[pod.metadata.name];
}

/** True for a pod that runs one of the containers with these beginnings of their ids. */
function runsOneOf({ status }: StoredPod, ids: readonly string[] = []): boolean {
  const running = (status.containerStatuses ?? []).map(({ containerID = "" }) =>
    containerID.replace("containerd://", ""),
  );
  return ids.some((id) => running.some((one) => one.startsWith(id)));
}

/**
 * True if the PVC is being deleted and no finalizer of ours keeps it: its pod may still use it, but the claim can save
 * nothing.
 */
function isLost({ metadata: { deletionTimestamp, finalizers = [] } }: Pick<LeaseObject, "metadata">): boolean {
  return deletionTimestamp !== undefined && !finalizers.some((one) => one.startsWith("sluice.dev/volume-"));
}

/** True if only the stamp differs, and the time since which the claim has existed. */
function isRenewed(before: string, after: string | undefined): boolean {
  const rest = (line: string) => JSON.stringify({ ...JSON.parse(line), stampMs: 0, sinceMs: 0 });
  return after !== undefined && rest(before) === rest(after);
}
