/**
 * A drawn history of an owner that is no StatefulSet, in virtual time. Two processes of each function run side by side, and
 * are killed before or after any of their writes. Meanwhile the owner, its users and kubelets do what they like. The history
 * checks each change as it reaches the store.
 */
import { gcSuspendedGroups } from "../../functions/gc-suspended-groups/function.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import { suspendGroup } from "../../functions/suspend-group/function.ts";
import type { StoredObject, StoredPod } from "../fake-cluster/objects.ts";
import { type Random, seededRandom } from "../fake-cluster/random.ts";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld, type World } from "../fake-cluster/world.ts";
import { KilledProcesses } from "./killed-processes.ts";
import { group, owner } from "./owned.ts";
import { shakePod } from "./shake-pod.ts";

const namespace = "db";
const key = { namespace, group };
const zones = ["a", "b", "c"];
const size = 3;
const claimsResource = "persistentvolumeclaims";
const of = (name: string) => `sluice.dev/${name}`;

export interface HistoryOptions {
  /** Adds faults to the cluster that the functions see; absent: none. */
  readonly wrap?: (cluster: Cluster) => Cluster;
  /**
   * Number of volume claims of each pod. Two differ: only the first names the zone, and the second is kept for twice as long.
   */
  readonly volumes?: 1 | 2;
}

export interface History {
  readonly violations: readonly string[];
  /** How often each thing happened: deleted pods and volumes, fulfilled wishes, kills. */
  readonly counts: Readonly<Record<string, number>>;
  /** What was still left when everything was quiet. */
  readonly left: readonly string[];
}

/** Plays ten minutes with troubles and as long without. The same seed gives the same history. */
export async function playOwned(
  seed: number,
  { wrap = (cluster) => cluster, volumes = 1 }: HistoryOptions = {},
): Promise<History> {
  const play = new Play(seed, wrap, volumes);
  await play.run();
  return { violations: play.violations, counts: play.counts, left: play.left() };
}

class Play {
  readonly #random: Random;
  readonly #timeline = new VirtualTimeline();
  readonly #world: World;
  readonly #wrap: (cluster: Cluster) => Cluster;
  /** Pods that the owner does not make again. */
  readonly #given = new Set<string>();
  /** Zones of the pods and volume claims that we are removing, by uid, until they are gone. */
  readonly #going = new Map<string, string>();
  readonly violations: string[] = [];
  readonly counts: Record<string, number> = {};
  /** Suffixes of the names of a pod's volume claims. */
  readonly #volumes: readonly string[];
  /** Since when a volume claim has asked to be kept, by its name. */
  readonly #keptMs = new Map<string, number>();
  /** True: a user deletes the namespace after ten minutes. */
  readonly #isEnding: boolean;
  #isCalm = false;

  constructor(seed: number, wrap: (cluster: Cluster) => Cluster, volumes: 1 | 2) {
    const random = seededRandom(seed);
    this.#random = random;
    this.#wrap = wrap;
    this.#volumes = suffixes.slice(0, volumes);
    this.#isEnding = seed % 4 === 0;
    const span = (least: number, most: number) => () => least + Math.floor(random() * (most - least));
    this.#world = createWorld({
      timeline: this.#timeline,
      seed,
      readyAfterMs: span(200, 4_000),
      goneAfterMs: span(100, 6_000),
    });
    this.#world.store.create("namespaces", "", { metadata: { name: namespace } });
    for (const name of members.flatMap((member) => this.#volumes.map((suffix) => `${member}-${suffix}`))) {
      const isFirst = name.endsWith(suffixes[0]);
      const annotations = {
        [of("owner")]: owner,
        ...(isFirst ? { [of("zone")]: zoneOf(name) } : {}),
        [of("suspend-duration")]: isFirst ? "20s" : "40s",
        [of("wait-between-removals")]: "1s",
      };
      this.#world.store.create(claimsResource, namespace, { metadata: { name, annotations } } as never);
    }
    this.#world.store.onChange(claimsResource, ({ previous, current, final }) =>
      this.#seeClaim(previous, current ?? final),
    );
    this.#world.store.onChange("leases", ({ current }) => {
      if (current !== undefined) this.#changeMind(current as unknown as StoredObject);
    });
    this.#world.store.onChange("pods", ({ current, final }) => {
      if (current === undefined) this.#going.delete(final.metadata.uid);
    });
    this.#world.store.onChange(claimsResource, ({ current, final }) => {
      if (current === undefined) this.#going.delete(final.metadata.uid);
    });
  }

  async run(): Promise<void> {
    this.#every(300, () => this.#own());
    this.#every(4_000, () => this.#trouble());
    const processes = new KilledProcesses({
      world: this.#world,
      random: this.#random,
      wrap: this.#wrap,
      isCalm: () => this.#isCalm,
      count: (what) => this.#count(what),
      onDelete: (resource, name) => this.#seeDeletion(resource, name),
    });
    for (const definition of [suspendGroup, suspendGroup, gcSuspendedGroups, gcSuspendedGroups])
      void processes.serve((context, triggers) => definition.reconcile(context, key, triggers));
    await this.#until(600_000);
    if (this.#isEnding) {
      this.#world.store.delete("namespaces", { namespace: "", name: namespace });
      await this.#until(900_000);
      return;
    }
    this.#isCalm = true;
    const isAsking = ({ metadata }: StoredObject) => metadata.annotations?.[of("suspend")] !== undefined;
    const asked = new Set(
      this.#claims()
        .filter(isAsking)
        .map((claim) => memberOf(claim.metadata.name)),
    );
    for (const { metadata } of this.#claims()) {
      this.#annotate(metadata.name, { "pod-selector": null });
      // A user who asked for one volume of a pod asks for all of them.
      if (asked.has(memberOf(metadata.name))) this.#annotate(metadata.name, { suspend: "true" });
      // The owner keeps the other volumes, and those that a user wants back.
      const isWanted = metadata.annotations?.[of("recover")] !== undefined || !asked.has(memberOf(metadata.name));
      if (isWanted) this.#given.delete(memberOf(metadata.name));
      if (metadata.annotations?.[of("hold")] !== undefined || metadata.annotations?.[of("drained-at")] === undefined)
        this.#annotate(metadata.name, { hold: null, "drained-at": this.#now() });
    }
    for (const pod of this.#pods()) this.#world.kubelet.healPod({ namespace, name: pod.metadata.name });
    for (let untilMs = 660_000; untilMs <= 1_200_000; untilMs += 60_000) {
      this.#drainAgain();
      await this.#until(untilMs);
    }
  }

  /** A pod that came after the drain was stated may have got new data, so a user drains that as well. */
  #drainAgain(): void {
    for (const { metadata } of this.#claims())
      if (/^(not-drained|drain-lost|(pod|claim)-newer): /.test(metadata.annotations?.[of("suspend-message")] ?? ""))
        this.#annotate(metadata.name, { "drained-at": this.#now() });
  }

  /**
   * What is left in the end, which must be nothing: suspended volumes and claims of the ledger. In a deleted namespace only
   * volumes with a user's hold may be left.
   */
  left(): readonly string[] {
    if (this.#isEnding) {
      const isBlocked = ({ metadata }: StoredObject) => metadata.annotations?.[of("hold")] !== undefined;
      // A hold on one volume of a pod keeps all of them.
      const blocked = new Set(
        this.#claims()
          .filter(isBlocked)
          .map((claim) => memberOf(claim.metadata.name)),
      );
      const kept = this.#claims().filter(({ metadata }) => !blocked.has(memberOf(metadata.name)));
      return kept.map(({ metadata }) => `${metadata.name}: ${metadata.annotations?.[of("suspend-message")]}`);
    }
    const claims = this.#claims().flatMap(({ metadata }) => {
      const { annotations = {} } = metadata;
      return annotations[of("suspend-state")] === undefined && annotations[of("suspend")] === undefined
        ? []
        : [`${metadata.name}: ${annotations[of("suspend-message")]}`];
    });
    const leases = this.#world.store
      .list("leases")
      .items.map(({ metadata }) => metadata.annotations?.[of("claims")] ?? "");
    return [...claims, ...leases.filter((text) => text !== "")];
  }

  async #until(ms: number): Promise<void> {
    let isOver = false;
    this.#timeline.after(ms - (this.#timeline.nowMs() - Date.UTC(2026, 0, 1)), () => {
      isOver = true;
    });
    await this.#timeline.run(() => isOver);
  }

  #every(ms: number, act: () => void): void {
    const turn = () => {
      act();
      this.#timeline.after(ms * (0.5 + this.#random()), turn);
    };
    this.#timeline.after(ms, turn);
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  #claims(): readonly StoredObject[] {
    return this.#world.store.list(claimsResource).items as unknown as readonly StoredObject[];
  }

  #pods(): readonly StoredPod[] {
    return this.#world.store.list("pods").items;
  }

  #now(): string {
    return new Date(this.#timeline.nowMs()).toISOString();
  }

  #annotate(claim: string, texts: Readonly<Record<string, string | null>>): void {
    const annotations = Object.fromEntries(Object.entries(texts).map(([name, text]) => [of(name), text]));
    this.#world.annotate({ namespace, name: claim }, annotations, claimsResource);
  }

  /** The owner makes a pod for the volume claims of each missing pod, unless it has given that pod up. */
  #own(): void {
    const there = new Set(this.#pods().map(({ metadata }) => metadata.name));
    for (const [name, claims] of Map.groupBy(this.#claims(), ({ metadata }) => memberOf(metadata.name))) {
      const isOver = claims.some(({ metadata }) => metadata.deletionTimestamp !== undefined) || this.#isGone();
      if (there.has(name) || this.#given.has(name) || isOver || claims.length < this.#volumes.length) continue;
      this.#world.store.create("pods", namespace, {
        metadata: { name, labels: { [of("suspendable")]: "true" } },
        spec: {
          containers: [{ name: "db", image: "db:1" }],
          volumes: claims.map(({ metadata }) => ({
            name: metadata.name,
            persistentVolumeClaim: { claimName: metadata.name },
          })),
        },
      } as never);
    }
  }

  #annotateOne(claim: string, texts: Readonly<Record<string, string | null>>): void {
    if (this.#world.store.find(claimsResource, { namespace, name: claim }) !== undefined) this.#annotate(claim, texts);
  }

  /** True if the namespace accepts no new objects. */
  #isGone(): boolean {
    const found = this.#world.store.find("namespaces", { namespace: "", name: namespace });
    return found === undefined || found.metadata.deletionTimestamp !== undefined;
  }

  /** What users, the owner and machines do to one member. */
  #trouble(): void {
    if (this.#isCalm || this.#isGone()) return;
    const claims = this.#claims();
    const { metadata } = claims[Math.floor(this.#random() * claims.length)] ?? {};
    if (metadata === undefined) return;
    const { annotations = {} } = metadata;
    const name = memberOf(metadata.name);
    const isAsked = annotations[of("suspend")] !== undefined;
    const isRemoved = metadata.deletionTimestamp !== undefined || annotations[of("suspend-state")] === "Removing";
    const drawn = this.#random();
    if (!isAsked && drawn < 0.7) {
      this.#given.add(name);
      // At times a user forgets one of two volumes.
      for (const suffix of this.#volumes)
        if (suffix === suffixes[0] || this.#random() < 0.9)
          this.#annotateOne(`${name}-${suffix}`, { suspend: "true", "drained-at": this.#now() });
    } else if (isAsked && !isRemoved && drawn < 0.15) {
      this.#count("wishes");
      this.#given.delete(name);
      this.#annotate(metadata.name, { recover: "true" });
    } else if (drawn < 0.25) this.#given.delete(name);
    else if (drawn < 0.35)
      this.#annotate(metadata.name, { hold: annotations[of("hold")] === undefined ? "true" : null });
    else if (drawn < 0.42) this.#annotate(metadata.name, { "drained-at": null });
    else if (drawn < 0.5) this.#annotate(metadata.name, { "suspend-duration": this.#random() < 0.5 ? "10s" : "40s" });
    else if (drawn < 0.58) this.#annotate(metadata.name, { "pod-selector": this.#random() < 0.5 ? "app=x" : "?" });
    else if (drawn < 0.66) this.#annotate(metadata.name, { "pod-selector": null });
    else shakePod({ world: this.#world, timeline: this.#timeline, random: this.#random }, { namespace, name });
  }

  /** A user changes their mind just when the ledger names volumes for removal, and before their volume claims do. */
  #changeMind({ metadata: { annotations = {} } }: StoredObject): void {
    // The ledger holds one claim on each line.
    const lines = (annotations[of("claims")] ?? "").split("\n").filter((line) => line !== "");
    const claims = lines.map((line): { kind: string; uids?: object } => JSON.parse(line));
    const named = claims.flatMap(({ kind, uids = {} }) => (kind === "volume" ? Object.keys(uids) : []));
    for (const claim of named) {
      if (this.#isCalm || this.#random() > 0.3) continue;
      this.#timeline.after(this.#random() * 60, () => {
        const { metadata } = this.#claims().find((one) => one.metadata.name === claim) ?? {};
        if (metadata?.annotations?.[of("suspend-state")] !== "Suspended") return;
        const isWish = this.#random() < 0.6;
        if (isWish) this.#given.delete(memberOf(claim));
        this.#count(isWish ? "wishes" : "holds");
        this.#annotate(claim, isWish ? { recover: "true" } : { hold: "true" });
      });
    }
  }

  /** Invariant I7: while we remove something of one zone, we remove nothing of another. */
  #seeDeletion(resource: string, name: string): void {
    const object = this.#world.store.find(resource as "pods", { namespace, name });
    if (object === undefined || resource === "leases") return;
    this.#begin(`${resource} ${name}`, object);
    this.#count(resource === "pods" ? "pods" : "volumes");
    // A deletion that a precondition refuses removes nothing.
    this.#timeline.after(2_000, () => {
      const now = this.#world.store.find(resource as "pods", { namespace, name });
      if (now?.metadata.uid === object.metadata.uid && now.metadata.deletionTimestamp === undefined)
        this.#going.delete(object.metadata.uid);
    });
  }

  #begin(what: string, { metadata: { name, uid } }: Pick<StoredObject, "metadata">): void {
    const zone = zoneOf(name);
    for (const [one, other] of this.#going)
      if (other !== zone && one !== uid) this.#violate(`${what} goes while ${one} of zone ${other} does`);
    this.#going.set(uid, zone);
  }

  /** Invariants I1, I4, I6 and I11: checks a volume claim's annotations when its removal begins. */
  #seeClaim(previous: StoredObject | undefined, current: StoredObject): void {
    const before = previous?.metadata.annotations ?? {};
    const { annotations = {}, name } = current.metadata;
    const isKept = [of("recover"), of("hold")].some((word) => annotations[word] !== undefined);
    if (!isKept) this.#keptMs.delete(name);
    else if (!this.#keptMs.has(name)) this.#keptMs.set(name, this.#timeline.nowMs());
    if (
      before[of("suspend-state")] !== undefined &&
      before[of("recover")] !== undefined &&
      annotations[of("suspend-state")] === undefined
    )
      this.#count("recovered");
    // A removal that was taken back goes on later, under another mark.
    if (annotations[of("suspend-state")] !== "Removing") this.#going.delete(current.metadata.uid);
    if (annotations[of("suspend-state")] !== "Removing" || before[of("suspend-state")] === "Removing") return;
    if (current.metadata.deletionTimestamp !== undefined) this.#begin(`${claimsResource} ${name}`, current);
    const others = this.#claims().filter((one) => memberOf(one.metadata.name) === memberOf(name));
    for (const { metadata } of others) {
      // The process that removes this claim has read the other one a moment before.
      const keptMs = this.#keptMs.get(metadata.name) ?? Number.POSITIVE_INFINITY;
      const isMarked = metadata.annotations?.[of("suspend-state")] === "Removing";
      if (metadata.name !== name && !isMarked && this.#timeline.nowMs() - keptMs > checkedWithinMs)
        this.#violate(`${name} is removed though ${metadata.name} says since ${keptMs} that it stays`);
    }
    const durationMs = Number.parseInt(before[of("suspend-duration")] ?? "", 10) * 1_000;
    const ageMs = this.#timeline.nowMs() - Date.parse(before[of("suspended-at")] ?? "");
    if (!(ageMs >= durationMs - 1_000))
      this.#violate(`${name} is removed ${ageMs} ms after its stamp, of ${durationMs}`);
    for (const word of ["recover", "hold"])
      if (before[of(word)] !== undefined) this.#violate(`${name} is removed though it says ${word}`);
    for (const word of ["suspend", "drained-at"])
      if (before[of(word)] === undefined) this.#violate(`${name} is removed though no annotation says ${word}`);
  }

  #violate(message: string): void {
    this.violations.push(`${this.#now()}: ${message}`);
  }
}

const members = zones.flatMap((zone) => Array.from({ length: size }, (_, number) => `${zone}-${number}`));
const suffixes = ["data", "journal"] as const;
/** A process acts on a reconcile for five seconds, and a stopped process may send half a minute later. */
const checkedWithinMs = 40_000;
const memberOf = (claim: string): string => claim.replace(/-(data|journal)$/, "");
const zoneOf = (name: string): string => name.slice(0, 1);

/** A server that accepts writes of one resource whatever revision they name. */
export const withoutRevisions =
  (resource: string) =>
  (cluster: Cluster): Cluster =>
    wrapCluster(cluster, {
      patch: ((wanted: string, object: never, body: { metadata?: object }, options: never) => {
        if (wanted !== resource) return cluster.patch(wanted as "leases", object, body as never, options);
        const metadata = { ...body.metadata, resourceVersion: undefined, uid: undefined };
        return cluster.patch(wanted as "leases", object, { ...body, metadata } as never, options);
      }) as Cluster["patch"],
    });
