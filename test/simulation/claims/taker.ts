/**
 * A function that makes claims of one kind, as a later one will. It writes the claim before it does anything, renews the stamp
 * before each further step, and ends the claim by its row of the table. When it is killed, another process of it goes on.
 */

import type { Context } from "../../../functions/shared/contract/context.ts";
import { refuseClaim } from "../../../functions/shared/groups/refuse-claim.ts";
import { type Cluster, ClusterError, type Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import {
  type ClaimContent,
  changeClaim,
  type KindName,
  type KnownClaim,
  makeClaim,
  namesOrdinal,
} from "../../../functions/shared/ledger/claim.ts";
import { type ClaimedObjects, type KindRow, kinds } from "../../../functions/shared/ledger/claim-kinds.ts";
import { refuseByHealth } from "../../../functions/shared/ledger/health-rule.ts";
import { finishAfterMs } from "../../../functions/shared/ledger/reservation.ts";
import { joinScaleDown, type SizeChange, scaleDownPhases } from "../../../functions/shared/scaling/size-changes.ts";
import { readClaimedObjects } from "../../../functions/shared/transaction/claimed-objects.ts";
import { Conflict, forgetLedger, waitForLedger } from "../../../functions/shared/transaction/ledger-copy.ts";
import type { GroupObservation } from "../../../functions/shared/transaction/observe-group.ts";
import { nextToAnnounce } from "../../../functions/shared/workloads/group-key.ts";
import type { GroupKey } from "../../../functions/shared/workloads/statefulsets.ts";
import type { World } from "../../fake-cluster/world.ts";
import type { Draw } from "../draw.ts";
import type { Apps } from "./apps.ts";
import { Brokers } from "./brokers.ts";
import { Fences } from "./fences.ts";
import { beforeRestart, isAsBefore, isQuick, reportedBy } from "./restarts.ts";
import { reviewSize, type SizeReviews } from "./sizes.ts";
import { observeLedger, writeClaim } from "./writing.ts";

/** The rules of claims that a test may remove. */
export interface ClaimRules {
  readonly kinds: Readonly<Record<KindName, KindRow>>;
  readonly refuse: typeof refuseClaim;
  /** Rule R19. */
  readonly join: typeof joinScaleDown;
  /** Rule R22. */
  readonly refuseByHealth: typeof refuseByHealth;
  /** Rule R23. */
  readonly nextToAnnounce: typeof nextToAnnounce;
  readonly find: typeof readClaimedObjects;
  /** True if the process reads again what a view reports, and changes it only as it was read (rule R21). */
  readonly isConditional: boolean;
}

export const shippedRules: ClaimRules = {
  kinds,
  refuse: refuseClaim,
  join: joinScaleDown,
  refuseByHealth,
  nextToAnnounce,
  find: readClaimedObjects,
  isConditional: true,
};

export interface TakerOptions {
  readonly kind: KindName;
  readonly context: Context;
  readonly key: GroupKey;
  readonly rules: ClaimRules;
  readonly world: World;
  readonly draw: Draw;
  readonly apps: Apps;
  readonly isActive: () => boolean;
  readonly isAlive: () => boolean;
  /** Called when the function does something to a pod under the claim of that id. */
  readonly onActed: (id: string, name: string) => void;
  /** Called when a claim of so many members was wanted. `guard`: what it waits for; undefined if the claim may be made. */
  readonly onDecided: (members: number, limit: number, guard: string | undefined) => void;
  /** Called when a change of a size was reviewed, with the claims of the ledger at that time. */
  readonly onReviewed: (change: SizeChange, lines: readonly string[], joins: boolean) => void;
  readonly onFenced: (id: string, node: string) => void;
  readonly reviews: SizeReviews;
  /** Processes are restarted only if the others can do without them. */
  readonly asks: boolean;
  /** The groups that a fence may concern. The first is the taker's own. */
  readonly groups: readonly string[];
  readonly everyMs: number;
  readonly latencyMs: () => number;
  readonly log: (what: string) => void;
}

/** Prefix of the names of processes that make claims. */
export const takerName = "taker";
export const takerOf = (kind: KindName): string => `take-${kind}`;
export const fenceOf = (node: string): string => `fence-${node}`;
export const volumeOf = (pod: string): string => `volume-${pod}`;
/** Annotation of the anchors. */
export const why = "example.dev/claim";
/** How long most restarted processes are not ready, in milliseconds. */
const restartMs = 20_000;

export class Taker {
  readonly #options: TakerOptions;
  readonly #brokers: Brokers;
  readonly #fences: Fences;

  constructor(options: TakerOptions) {
    this.#options = options;
    const { world, context, latencyMs, rules, key, isAlive } = options;
    const { namespace } = key;
    this.#brokers = new Brokers({
      world,
      namespace,
      cluster: context.cluster,
      latencyMs,
      refuse: rules.refuseByHealth,
    });
    this.#fences = new Fences({ ...options, by: takerOf("node"), why, next: rules.nextToAnnounce });
    if (options.kind === "scale-down")
      options.reviews.add({ isAlive, review: (change) => reviewSize({ ...options, join: rules.join }, change) });
  }

  /** Runs until its process is dead. */
  async run(): Promise<void> {
    const { context, draw, everyMs, key } = this.#options;
    for (;;) {
      try {
        await this.#tick();
      } catch (error) {
        if (!(error instanceof ClusterError) && !(error instanceof Conflict) && waitForLedger(error) === undefined)
          throw error;
        forgetLedger(context.memoryOf(key));
      }
      await context.cluster.sleep(everyMs * draw.between(0.2, 2));
    }
  }

  async #tick(): Promise<void> {
    const { kind, isActive, context, key, draw, reviews, asks } = this.#options;
    // Reads the ledger afresh: what it holds now decides what must be continued.
    forgetLedger(context.memoryOf(key));
    const observed = await observeLedger(context, key);
    if (observed === undefined) return;
    const own = claimsOf(observed, kind)[0];
    if (kind === "scale-down" && own !== undefined && isActive() && draw.chance(0.3))
      await reviews.scaleByHand(own, key, context.cluster);
    // Where processes are asked, the taker also begins to restart another one meanwhile.
    else if (asks && isActive() && draw.chance(0.5)) await this.#begin(observed);
    else if (own !== undefined) await this.#goOn(observed, own);
    else if (isActive()) await this.#begin(observed);
  }

  async #begin(observed: GroupObservation): Promise<void> {
    const { context, log, kind, groups } = this.#options;
    const content = await this.#contentOf(observed);
    if (content === undefined || !this.#mayBegin(observed, content)) return;
    if (!(await this.#isLetGo(observed, content))) return;
    if (kind === "node") await this.#fences.anchor(content);
    if (kind === "node" && groups.length > 1) return this.#fences.announce(content);
    const claim = makeClaim({ ...content, stampMs: context.cluster.serverTimeMs() });
    const deadlineMs = await writeClaim(context, observed, undefined, claim);
    log(`claims ${claim.line}`);
    await this.#act(claim, deadlineMs);
  }

  /** Rules R17 and R25. */
  #mayBegin(observed: GroupObservation, content: ClaimContent): boolean {
    const { rules, onDecided } = this.#options;
    const set = observed.zones.find(({ workload }) => workload.name === content.zone)?.workload;
    const limit = set?.maxUnavailable ?? 0;
    const blocked = rules.refuse(observed, content, limit);
    const members = content.members.reduce((sum, { first, last }) => sum + last - first + 1, 0);
    if (content.kind === "scale-down") onDecided(members, limit, blocked?.guard);
    return blocked === undefined;
  }

  /** Rule R22, where processes are asked. The claim names the uids of the members that are restarted. */
  async #isLetGo({ ledger, open }: GroupObservation, { kind, id, uids = {} }: ClaimContent): Promise<boolean> {
    const { asks, context, key } = this.#options;
    if (kind !== "process" || !asks) return true;
    const readMs = context.memoryOf(key).ledgerReadMs;
    const blocked = { reservations: open, claims: ledger.claims, readMs };
    for (const name of Object.keys(uids)) if (!(await this.#brokers.letGo(name, blocked, id))) return false;
    return true;
  }

  async #contentOf({ zones }: GroupObservation): Promise<ClaimContent | undefined> {
    const { draw, kind, world, key, context, rules, apps } = this.#options;
    const zone = zones.length > 0 ? draw.pick(zones) : undefined;
    if (zone === undefined || zone.pods.length === 0) return undefined;
    const { name, uid, start, replicas } = zone.workload;
    const id = `${kind}-${draw.whole(1, 1e9)}`;
    const stated = { id, kind, zone: name, by: takerOf(kind), stampMs: 0, phase: "begun" };
    if (kind === "scale-down") {
      if (replicas < 2) return undefined;
      const last = start + replicas - 1;
      // Two at once may be more than may ever be down (rule R25).
      const first = last - (replicas > 2 && draw.chance(0.3) ? 1 : 0);
      const { preparing: phase } = scaleDownPhases;
      return { ...stated, members: [{ first, last }], uids: { [name]: uid }, phase, terms: "asked" };
    }
    const pod = draw.pick(zone.pods);
    const members = [{ first: pod.ordinal, last: pod.ordinal }];
    if (kind === "process") {
      const anchor = { resource: "pods", name: pod.name, annotation: why };
      const before = await beforeRestart(id, pod, rules.isConditional ? context.cluster : undefined, apps);
      if (before === undefined) return undefined;
      return { ...stated, members, uids: { [pod.name]: pod.uid }, ...before, anchor, terms: "asked" };
    }
    if (kind === "node") {
      const node = world.store.find("pods", { namespace: key.namespace, name: pod.name })?.spec.nodeName;
      if (node === undefined) return undefined;
      const anchor = { resource: "leases", name: fenceOf(node), annotation: why };
      return { ...stated, members, uids: { [pod.name]: pod.uid }, anchor, terms: "announced" };
    }
    const volume = await context.cluster.get("leases", { namespace: key.namespace, name: volumeOf(pod.name) });
    const anchor = { resource: "leases", name: volume.metadata.name, annotation: why };
    return { ...stated, members, uids: { [volume.metadata.name]: volume.metadata.uid }, anchor, terms: "asked" };
  }

  /** Does what the claim was written for. Begins no later than rule R9 allows. */
  async #act(claim: KnownClaim, deadlineMs: number): Promise<void> {
    const { kind } = this.#options;
    if (kind === "scale-down") await this.#scaleDown(claim, deadlineMs);
    else if (kind === "process") await this.#restart(claim, deadlineMs);
    else if (kind === "volume") await this.#annotate("leases", claim);
  }

  async #annotate(resource: Resource, { anchor, id }: KnownClaim): Promise<void> {
    const { context, key } = this.#options;
    const at = { namespace: key.namespace, name: anchor?.name ?? "" };
    await context.cluster.patch(resource, at, { metadata: { annotations: { [why]: id } } });
  }

  /** Calls a pod. A sent request arrives whatever happens to its sender. False if it was not sent, or not answered. */
  async #call(deadlineMs: number, effect: () => void): Promise<boolean> {
    const { world, latencyMs, draw, context } = this.#options;
    if (context.cluster.monotonicMs() > deadlineMs) return false;
    const isLost = draw.chance(0.1);
    const wayMs = latencyMs();
    if (!isLost || draw.chance(0.5)) world.timeline.after(wayMs, effect);
    await context.cluster.sleep(2 * wayMs);
    return !isLost;
  }

  #standing({ zone, uids: _, ...claim }: KnownClaim, { pods }: ClaimedObjects) {
    return [...pods.values()].filter(({ ordinal }) => namesOrdinal({ zone, ...claim }, ordinal));
  }

  /** Rule R18: first the pods are told, then a write of its own confirms the claim, then the size is changed. */
  async #scaleDown(claim: KnownClaim, deadlineMs: number): Promise<void> {
    const { rules, context, key, apps } = this.#options;
    const where = await rules.find(context.cluster, key.namespace, claim);
    for (const { uid } of this.#standing(claim, where)) {
      if (!(await this.#call(deadlineMs, () => apps.prepared.add(uid)))) return;
      // A pod that has not confirmed counts as not prepared.
      if (!apps.prepared.has(uid)) return;
    }
    const observed = await observeLedger(context, key);
    const own = observed && claimsOf(observed, "scale-down").find(({ line }) => line === claim.line);
    if (observed === undefined || own === undefined) return;
    const stampMs = context.cluster.serverTimeMs();
    const reported = Object.fromEntries(this.#standing(claim, where).map(({ name, uid }) => [name, uid]));
    const confirmed = changeClaim(own, {
      phase: scaleDownPhases.confirmed,
      uids: { ...own.uids, ...reported },
      stampMs,
      sinceMs: own.sinceMs ?? own.stampMs,
    });
    const patchMs = await writeClaim(context, observed, own, confirmed);
    await this.#changeSize(confirmed, where, patchMs, context.cluster);
  }

  async #changeSize(claim: KnownClaim, before: ClaimedObjects, deadlineMs: number, cluster: Cluster): Promise<void> {
    const { rules, key, draw, reviews } = this.#options;
    const at = rules.isConditional ? await rules.find(cluster, key.namespace, claim) : before;
    const { statefulSet } = at;
    const first = claim.members[0]?.first ?? 0;
    if (statefulSet === undefined || claim.uids?.[claim.zone] !== statefulSet.uid) return;
    const last = statefulSet.start + statefulSet.replicas - 1;
    if (rules.isConditional && claim.members.at(-1)?.last !== last) return;
    // At times another webhook denies the change: then the scale-down does not come (rule R20).
    if (draw.chance(0.2) || cluster.monotonicMs() > deadlineMs) return;
    const { name, uid, resourceVersion, start, replicas } = statefulSet;
    // The API server also asks our own webhook, and asks again if the object has changed in storage (rule R19).
    const change = { zone: name, uid, from: { start, replicas }, to: { start, replicas: first - start } };
    for (let asked = draw.whole(1, 3); asked > 0; asked--) if (!(await reviews.ask(change, cluster))) return;
    const metadata = rules.isConditional ? { uid, resourceVersion } : { uid };
    const body = { metadata, spec: { replicas: first - statefulSet.start } };
    await cluster.patch("statefulsets", { namespace: key.namespace, name }, body);
  }

  async #restart(claim: KnownClaim, deadlineMs: number): Promise<void> {
    const { apps, draw, key, onActed } = this.#options;
    await this.#annotate("pods", claim);
    const slowMs = draw.chance(0.1) ? draw.between(160_000, 220_000) : draw.between(1_000, restartMs);
    const forMs = isQuick(claim.id) ? 0 : slowMs;
    for (const [name, uid] of Object.entries(claim.uids ?? {})) {
      await this.#call(deadlineMs, () => {
        if (apps.restart(name, key.namespace, uid, forMs)) onActed(claim.id, name);
      });
    }
  }

  async #goOn(observed: GroupObservation, own: KnownClaim): Promise<void> {
    const { rules, context, key, kind, log, apps } = this.#options;
    const found = await rules.find(context.cluster, key.namespace, own, await this.#volumes(own));
    const where = kind === "process" ? { ...found, processes: reportedBy(apps, found) } : found;
    const nowMs = context.cluster.serverTimeMs();
    const row = rules.kinds[kind];
    if (row.isSettled(own, where, nowMs)) {
      await writeClaim(context, observed, own, undefined);
      log(`${own.id} is settled`);
    } else if (row.isAbandoned(own, where, nowMs)) await this.#undo(observed, own, where);
    else if (kind === "node" && where.isAnchored && !(await this.#fences.isInformed(own)))
      await this.#fences.announce(own);
    else if (kind !== "scale-down" && nowMs - own.stampMs >= finishAfterMs) await this.#finish(observed, own, where);
  }

  async #volumes({ uids = {}, kind }: KnownClaim): Promise<ReadonlyMap<string, string>> {
    const { context, key } = this.#options;
    const found = new Map<string, string>();
    if (kind !== "volume") return found;
    for (const name of Object.keys(uids)) {
      try {
        const volume = await context.cluster.get("leases", { namespace: key.namespace, name });
        found.set(name, volume.metadata.uid);
      } catch (error) {
        if (!(error instanceof ClusterError) || error.code !== 404) throw error;
      }
    }
    return found;
  }

  /** Rule R20: the claim goes only after the pods that stay were told so, and shrinks to the pods that leave. */
  async #undo(observed: GroupObservation, own: KnownClaim, where: ClaimedObjects): Promise<void> {
    const { rules, kind, apps, context, log, key } = this.#options;
    const undone = rules.kinds[kind].undoes(own, where);
    const isUndone = (ordinal: number) => undone.some(({ first, last }) => ordinal >= first && ordinal <= last);
    let [observation, claim]: [GroupObservation | undefined, KnownClaim | undefined] = [observed, own];
    if (undone.length > 0) {
      const stampMs = context.cluster.serverTimeMs();
      const undoing = changeClaim(own, { phase: "undoing", stampMs, sinceMs: own.sinceMs ?? own.stampMs });
      const deadlineMs = await writeClaim(context, observed, own, undoing);
      for (const { uid, ordinal } of this.#standing(own, where)) {
        if (!isUndone(ordinal)) continue;
        if (!(await this.#call(deadlineMs, () => apps.prepared.delete(uid))) || apps.prepared.has(uid)) return;
      }
      observation = await observeLedger(context, key);
      claim = observation && claimsOf(observation, kind).find(({ line }) => line === undoing.line);
    }
    if (observation === undefined || claim === undefined) return;
    const left = [...where.pods.keys()].filter((ordinal) => !isUndone(ordinal)).sort((one, other) => one - other);
    const members = left.map((ordinal) => ({ first: ordinal, last: ordinal }));
    await writeClaim(
      context,
      observation,
      claim,
      members.length === 0 || undone.length === 0 ? undefined : changeClaim(claim, { members }),
    );
    log(`${own.id} is over`);
  }

  /** Rule R10: this process continues what another one began, once the other one must have given up. */
  async #finish(observed: GroupObservation, own: KnownClaim, where: ClaimedObjects): Promise<void> {
    const { kind, context, key, draw } = this.#options;
    const stampMs = context.cluster.serverTimeMs();
    const renewed = changeClaim(own, { stampMs, sinceMs: own.sinceMs ?? own.stampMs });
    if (kind === "process") {
      if (isAsBefore(own, where) && (await this.#isLetGo(observed, own)))
        await this.#restart(renewed, await writeClaim(context, observed, own, renewed));
    } else if (kind === "volume" && draw.chance(0.1)) {
      if (!where.isAnchored) await this.#annotate("leases", own);
      const deadlineMs = await writeClaim(context, observed, own, renewed);
      for (const [name, uid] of Object.entries(own.uids ?? {})) {
        if (context.cluster.monotonicMs() > deadlineMs) return;
        await context.cluster.delete("leases", { namespace: key.namespace, name }, { uid });
      }
    } else if (kind === "node" && draw.chance(0.1)) {
      if (![...where.pods.values()].some(({ uid, name }) => uid === own.uids?.[name])) return;
      // The node is back with its pods, and the fence is lifted: its Lease goes first, and the ledger shows that later.
      const at = { namespace: key.namespace, name: own.anchor?.name ?? "" };
      const { uid } = (await context.cluster.get("leases", at)).metadata;
      await context.cluster.delete("leases", at, { uid });
    }
  }
}

function claimsOf({ ledger }: GroupObservation, kind: KindName): KnownClaim[] {
  return ledger.claims.filter((claim): claim is KnownClaim => claim.isKnown && claim.kind === kind);
}
