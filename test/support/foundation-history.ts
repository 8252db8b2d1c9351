/**
 * A drawn history of a FoundationDBCluster in virtual time: a stand-in for its operator, users, and two processes of each
 * function, which are killed at any write. Invariant B1 is checked whenever a block reaches the store or leaves it.
 */
import { gcSuspendedGroups } from "../../functions/gc-suspended-groups/function.ts";
import { holdProcessGroups } from "../../functions/hold-process-groups/function.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { suspendGroup } from "../../functions/suspend-group/function.ts";
import type { StoredObject, StoredPod } from "../fake-cluster/objects.ts";
import { type Random, seededRandom } from "../fake-cluster/random.ts";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld, type World } from "../fake-cluster/world.ts";
import { brokenBlocks, checked, liftedBy } from "./blocks.ts";
import type { Deletion, FoundationHistory, FoundationOptions } from "./foundation-options.ts";
import { type ClusterObject, type GroupStatus, isDrainOlder, labels, operate } from "./foundationdb.ts";
import { KilledProcesses } from "./killed-processes.ts";
import { shakePod } from "./shake-pod.ts";
import { VolumeLosses } from "./volume-losses.ts";

const namespace = "db";
const name = "orders";
const at = { namespace, name };
const key = { resource: "foundationdbclusters", ...at } as const;
const groupKey = { namespace, group: `owner:FoundationDBCluster.apps.foundationdb.org/${name}` };
const claimsResource = "persistentvolumeclaims";
const zones = ["a", "b", "c"];
const perZone = 3;
const beginningMs = Date.UTC(2026, 0, 1);
const of = (word: string) => `sluice.dev/${word}`;

/** Plays ten minutes with troubles and fifteen without. The same seed gives the same history. */
export async function playFoundation(
  seed: number,
  { wrap = (cluster) => cluster, protects = false, settings = [], wait = "1s" }: FoundationOptions = {},
): Promise<FoundationHistory> {
  const play = new Play(seed, wrap, protects, wait);
  for (const { atMs, automationOptions } of settings) play.setAt(atMs, automationOptions);
  await play.run();
  const { violations, counts, deletions } = play;
  return { violations, counts, deletions, left: play.left() };
}

class Play {
  readonly #random: Random;
  readonly #timeline = new VirtualTimeline();
  readonly #world: World;
  readonly #wrap: (cluster: Cluster) => Cluster;
  readonly #protects: boolean;
  readonly #losses: VolumeLosses;
  /** Ids that users have blocked themselves. */
  readonly #usersOwn = new Set<string>();
  readonly violations: string[] = [];
  readonly counts: Record<string, number> = {};
  readonly deletions: Deletion[] = [];
  #made = 0;
  readonly #zones = new Map<string, string>();
  #isCalm = false;
  /** True while a client that is no function of ours changes the cluster. */
  #isOther = false;

  constructor(seed: number, wrap: (cluster: Cluster) => Cluster, protects: boolean, wait: string) {
    const random = seededRandom(seed);
    this.#random = random;
    this.#wrap = wrap;
    this.#protects = protects;
    const span = (least: number, most: number) => () => least + Math.floor(random() * (most - least));
    this.#world = createWorld({
      timeline: this.#timeline,
      seed,
      readyAfterMs: span(200, 4_000),
      goneAfterMs: span(100, 6_000),
    });
    const { store } = this.#world;
    store.create("namespaces", "", { metadata: { name: namespace } });
    const annotations = { [of("suspend-duration")]: "20s", [of("wait-between-removals")]: wait };
    const protection = protects ? { [of("protect-volumes")]: "true" } : {};
    const automationOptions = { waitBetweenRemovalsSeconds: 0, useLocalitiesForExclusion: seed % 2 === 0 };
    store.create(key.resource, namespace, {
      metadata: { name, annotations: { ...annotations, ...protection } },
      spec: { automationOptions },
    } as never);
    this.#writeStatus(zones.flatMap((zone) => Array.from({ length: perZone }, () => this.#newGroup(zone))));
    this.#losses = new VolumeLosses(this.#world, (message) => this.#violate(message));
    store.onChange(key.resource, ({ previous, current }) => {
      if (previous !== undefined && current !== undefined && !this.#isOther)
        this.#seeBlocks(previous as unknown as ClusterObject, current as unknown as ClusterObject);
    });
  }

  /** Sets the cluster's own settings at a time, as a user does. */
  setAt(atMs: number, automationOptions: object): void {
    this.#timeline.after(atMs, () => this.#change({ spec: { automationOptions } }));
  }

  get #sinceMs(): number {
    return this.#timeline.nowMs() - beginningMs;
  }

  async run(): Promise<void> {
    this.#every(500, () => this.#operate());
    this.#every(4_000, () => this.#trouble());
    const processes = new KilledProcesses({
      world: this.#world,
      random: this.#random,
      wrap: this.#wrap,
      isCalm: () => this.#isCalm,
      count: (what) => this.#count(what),
      onDelete: (resource, object) => {
        this.#count(resource === "pods" ? "pods" : "volumes");
        const zone = this.#zones.get(object.replace(`${name}-`, "").replace(/-data$/, "")) ?? "";
        this.deletions.push({ atMs: this.#sinceMs, resource, zone });
      },
    });
    for (let number = 0; number < 2; number++) {
      void processes.serve((context) => holdProcessGroups.reconcile(context, key, { sweep: false }));
      void processes.serve((context, triggers) => suspendGroup.reconcile(context, groupKey, triggers));
      void processes.serve((context, triggers) => gcSuspendedGroups.reconcile(context, groupKey, triggers));
    }
    await this.#until(600_000);
    this.#calm();
    await this.#until(1_500_000);
  }

  /** Our records, blocks and annotations in the end: none, but on a claim deleted while the operator remade its pod. */
  left(): readonly string[] {
    const { spec, metadata } = this.#cluster;
    const ids = new Set(this.#pods.map((pod) => pod.metadata.labels?.[labels.id] ?? ""));
    const claims = this.#list(claimsResource).map((claim) => ({
      ...claim,
      id: claim.metadata.labels?.[labels.id] ?? "",
    }));
    const stuck = claims.filter((claim) => claim.metadata.deletionTimestamp !== undefined && ids.has(claim.id));
    const isLeft = (id: string) => !this.#usersOwn.has(id) && stuck.every((claim) => claim.id !== id);
    const ours = claims.filter(({ metadata: { annotations = {} } }) => {
      return annotations[of("suspend-state")] !== undefined || annotations[of("suspend")] !== undefined;
    });
    const record: object = JSON.parse(metadata.annotations?.[of("held-process-groups")] ?? "{}");
    const lost = [...this.#usersOwn].filter((id) => !spec?.buggify?.blockRemoval?.includes(id));
    return [
      ...(spec?.buggify?.blockRemoval ?? []).filter(isLeft).map((id) => `${id} is blocked`),
      ...Object.keys(record)
        .filter(isLeft)
        .map((id) => `${id} is on record`),
      ...ours
        .filter(({ id }) => isLeft(id))
        .map((one) => `${one.id}: ${one.metadata.annotations?.[of("suspend-message")]}`),
      ...lost.map((id) => `${id} has lost the user's block`),
      ...this.#losses.writtenSince(this.#timeline.nowMs() - 120_000),
    ];
  }

  /** Users stop causing trouble. A minute later they grant what waits for them. */
  #calm(): void {
    this.#isCalm = true;
    this.#log({ "suspend-duration": "20s" });
    if (this.#protects) this.#log({ "protect-volumes": "true" });
    this.#change({ spec: { processGroupsToRemoveWithoutExclusion: null } });
    for (const pod of this.#pods) this.#world.kubelet.healPod({ namespace, name: pod.metadata.name });
    this.#timeline.after(60_000, () => {
      for (const { metadata } of this.#list(claimsResource)) {
        const { annotations = {}, deletionTimestamp } = metadata;
        const isAsked = annotations[of("suspend")] !== undefined;
        if (isAsked && this.#isStuck(metadata.labels?.[labels.id] ?? "")) this.#wish(metadata.name);
        if (deletionTimestamp !== undefined && isDrainOlder(annotations)) this.#drainAgain(metadata.name);
      }
    });
  }

  /** Does what the guard `pod-newer` asks for, when it is too late to recover a deleted claim. */
  #drainAgain(claim: string): void {
    const drained = new Date(this.#timeline.nowMs()).toISOString();
    this.#world.annotate({ namespace, name: claim }, { [of("drained-at")]: drained }, claimsResource);
  }

  /**
   * True if a user must help: the exclusion was skipped, the pod is newer than its exclusion, or a user has blocked the group.
   */
  #isStuck(id: string): boolean {
    const { exclusionSkipped, exclusionTimestamp = "" } = this.#group(id) ?? {};
    const pod = this.#world.store.find("pods", { namespace, name: `${name}-${id}` });
    const isNewer = Date.parse(pod?.metadata.creationTimestamp ?? "") > Date.parse(exclusionTimestamp);
    return exclusionSkipped === true || isNewer || this.#usersOwn.has(id);
  }

  async #until(ms: number): Promise<void> {
    let isOver = false;
    this.#timeline.after(ms - this.#sinceMs, () => {
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

  get #cluster(): ClusterObject {
    return this.#world.store.get(key.resource, at) as unknown as ClusterObject;
  }

  get #groups(): readonly GroupStatus[] {
    return this.#cluster.status?.processGroups ?? [];
  }

  get #pods(): readonly StoredPod[] {
    return this.#world.store.list("pods").items;
  }

  #group(id: string): GroupStatus | undefined {
    return this.#groups.find(({ processGroupID }) => processGroupID === id);
  }

  #list(resource: "pods" | typeof claimsResource): readonly StoredObject[] {
    return this.#world.store.list(resource).items as unknown as readonly StoredObject[];
  }

  #newGroup(zone: string): GroupStatus {
    this.#made += 1;
    const addresses = [`10.1.0.${this.#made}:4501`];
    this.#zones.set(`storage-${this.#made}`, zone);
    return { processGroupID: `storage-${this.#made}`, addresses, faultDomain: zone, processGroupConditions: [] };
  }

  #writeStatus(processGroups: readonly GroupStatus[]): void {
    this.#change({ status: { processGroups } }, "status");
  }

  #change(body: object, subresource?: "status"): void {
    this.#isOther = true;
    this.#world.store.patch(key.resource, at, body as never, subresource);
    this.#isOther = false;
  }

  #log(texts: Readonly<Record<string, string | null>>): void {
    this.#isOther = true;
    const annotations = Object.fromEntries(Object.entries(texts).map(([word, text]) => [of(word), text]));
    this.#world.annotate(at, annotations, key.resource);
    this.#isOther = false;
  }

  #wish(claim: string): void {
    if (this.#world.store.find(claimsResource, { namespace, name: claim }) === undefined) return;
    this.#count("wishes");
    this.#world.annotate({ namespace, name: claim }, { [of("recover")]: "true" }, claimsResource);
  }

  /** Reconciles once as the operator does. A removed process group is replaced, so that there is always something to remove. */
  #operate(): void {
    const cluster = this.#cluster;
    const claims = this.#list(claimsResource);
    const faultDomainOf = (id: string) => this.#zones.get(id);
    const nowMs = this.#timeline.nowMs();
    const done = operate(cluster, { pods: this.#pods, claims, nowMs, drainMs: 3_000, faultDomainOf });
    const { store } = this.#world;
    for (const id of done.madeClaims) store.create(claimsResource, namespace, this.#labelled(id, "-data") as never);
    for (const id of done.madePods) {
      const volumes = [{ name: "data", persistentVolumeClaim: { claimName: `${name}-${id}-data` } }];
      const spec = { containers: [{ name: "fdb", image: "fdb:1" }], volumes };
      store.create("pods", namespace, { ...this.#labelled(id), spec } as never);
    }
    const recorded: object = JSON.parse(cluster.metadata.annotations?.[of("held-process-groups")] ?? "{}");
    for (const id of done.deleted) {
      const volume = claims.find(({ metadata }) => metadata.labels?.[labels.id] === id);
      if (volume !== undefined && Object.hasOwn(recorded, id))
        this.#violate(`the operator deletes the volume of ${id}`);
      if (store.find("pods", { namespace, name: `${name}-${id}` }) !== undefined)
        store.delete("pods", { namespace, name: `${name}-${id}` });
      if (volume !== undefined && volume.metadata.deletionTimestamp === undefined)
        store.delete(claimsResource, { namespace, name: volume.metadata.name });
    }
    for (const _ of done.included) this.#count("removed");
    const replacements = done.included.map((id) => this.#newGroup(faultDomainOf(id) ?? "a"));
    const processGroups = [...done.processGroups, ...replacements];
    if (JSON.stringify(processGroups) !== JSON.stringify(cluster.status?.processGroups))
      this.#writeStatus(processGroups);
  }

  #labelled(id: string, suffix = "") {
    const { uid } = this.#cluster.metadata;
    const owner = {
      apiVersion: "apps.foundationdb.org/v1beta2",
      kind: "FoundationDBCluster",
      name,
      uid,
      controller: true,
    };
    const marks = { [labels.cluster]: name, [labels.id]: id };
    return { metadata: { name: `${name}-${id}${suffix}`, labels: marks, ownerReferences: [owner] } };
  }

  /** What users and machines do to one process group. */
  #trouble(): void {
    if (this.#isCalm) return;
    const { processGroupID: id } = this.#groups[Math.floor(this.#random() * this.#groups.length)] ?? {};
    if (id === undefined) return;
    if (this.#protects && this.#random() < 0.3) {
      this.#outrun(id);
      return;
    }
    const { spec = {}, metadata } = this.#cluster;
    const listed = spec.processGroupsToRemove ?? [];
    const blocked = spec.buggify?.blockRemoval ?? [];
    const isBlocked = metadata.annotations?.[of("held-process-groups")]?.includes(`"${id}"`) === true;
    const drawn = this.#random();
    if (isBlocked && drawn < 0.3) this.#wish(`${name}-${id}-data`);
    else if (drawn < 0.55) {
      if (!listed.includes(id)) this.#change({ spec: { processGroupsToRemove: [...listed, id] } });
    } else if (drawn < 0.62) this.#cancel(id, listed);
    else if (drawn < 0.67) {
      if (!isBlocked && !blocked.includes(id)) this.#blockByUser(id, blocked);
    } else if (drawn < 0.7) this.#unblockByUser(blocked);
    else if (drawn < 0.73) this.#change({ spec: { processGroupsToRemoveWithoutExclusion: [id] } });
    else if (drawn < 0.76) this.#change({ spec: { processGroupsToRemoveWithoutExclusion: null } });
    else if (drawn < 0.84) this.#overwriteLate();
    else if (drawn < 0.88)
      this.#log({ "suspend-duration": ["10s", "40s", "soon", null][Math.floor(this.#random() * 4)] ?? null });
    else if (drawn < 0.92) this.#log({ "suspend-duration": "20s" });
    else
      shakePod(
        { world: this.#world, timeline: this.#timeline, random: this.#random },
        { namespace, name: `${name}-${id}` },
      );
  }

  /**
   * The operator or a user deletes a volume before Sluice can block that, or Sluice cannot read for a while whether it must
   * protect volumes.
   */
  #outrun(id: string): void {
    const drawn = this.#random();
    if (drawn < 0.15) {
      this.#log({ "protect-volumes": "maybe" });
      this.#timeline.after(8_000, () => this.#log({ "protect-volumes": "T" }));
      return;
    }
    if (!this.#losses.take({ namespace, name: `${name}-${id}` })) return;
    this.#count("outrun");
    const now = new Date(this.#timeline.nowMs()).toISOString();
    const skipped = drawn < 0.4 ? { exclusionSkipped: true } : {};
    const removed = { removalTimestamp: now, exclusionTimestamp: now, ...skipped };
    if (drawn < 0.9)
      this.#writeStatus(this.#groups.map((one) => (one.processGroupID === id ? { ...one, ...removed } : one)));
  }

  /** The user no longer wants the group removed, and has told the operator so. */
  #cancel(id: string, listed: readonly string[]): void {
    this.#count("cancelled");
    this.#change({ spec: { processGroupsToRemove: listed.filter((one) => one !== id) } });
    const kept = this.#groups.map((group): GroupStatus => {
      if (group.processGroupID !== id) return group;
      const { removalTimestamp: _marked, exclusionTimestamp: _since, exclusionSkipped: _skipped, ...rest } = group;
      return { ...rest, processGroupConditions: [] };
    });
    this.#writeStatus(kept);
  }

  #blockByUser(id: string, blocked: readonly string[]): void {
    this.#count("blocked by users");
    this.#usersOwn.add(id);
    this.#change({ spec: { buggify: { blockRemoval: [...blocked, id] } } });
  }

  #unblockByUser(blocked: readonly string[]): void {
    const [id] = this.#usersOwn;
    if (id === undefined) return;
    this.#usersOwn.delete(id);
    this.#change({ spec: { buggify: { blockRemoval: blocked.filter((one) => one !== id) } } });
  }

  /** The operator writes a whole status that it read before other clients changed it (spec 1.1 D9). */
  #overwriteLate(): void {
    const before = this.#groups;
    this.#timeline.after(this.#random() * 4_000, () => {
      if (this.#isCalm) return;
      this.#count("overwritten");
      this.#writeStatus(before);
    });
  }

  #seeBlocks(previous: ClusterObject, current: ClusterObject): void {
    const claimOf = (id: string) =>
      this.#list(claimsResource).find(({ metadata }) => metadata.labels?.[labels.id] === id);
    const change = { previous, current, usersOwn: this.#usersOwn, claimOf };
    for (const _ of liftedBy(change)) this.#count("lifted");
    for (const message of brokenBlocks(change, (claim) => this.#losses.isKept(claim))) this.#violate(message);
  }

  #violate(message: string): void {
    this.violations.push(`${checked} ${new Date(this.#timeline.nowMs()).toISOString()}: ${message}`);
  }
}
