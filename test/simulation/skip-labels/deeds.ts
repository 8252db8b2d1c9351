/** What users, and other controllers, do to owners whose pods have stop hooks. */
import type { Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredObject, StoredPod } from "../../fake-cluster/objects.ts";
import type { SkipDeed } from "../plan.ts";
import type { SeedRun } from "../seed.ts";
import type { SkipLabelChecker } from "./checker.ts";
import {
  annotation,
  annotationOf,
  askedLabel,
  foreign,
  hasOurFinalizer,
  isDeleted,
  ourFinalizer,
  quorum,
  quorumLabel,
  rabbitLabel,
} from "./owners.ts";
import { hookAnnotation, hookedNamespace as namespace } from "./stop-hooks.ts";

const otherFinalizer = "other.test/hold";

export class Deeds {
  readonly #run: SeedRun;
  readonly #checker: SkipLabelChecker;
  /** Which pods' labels another webhook refuses, and until when, in milliseconds since the epoch. */
  #refused = { untilMs: 0, of: /$/ };

  readonly #onOwners: Readonly<Partial<Record<SkipDeed, (owner: StoredObject) => void>>>;

  constructor(run: SeedRun, checker: SkipLabelChecker) {
    const { draw, world } = run;
    this.#run = run;
    this.#checker = checker;
    const annotate = (owner: StoredObject, key: string, value: string | null) =>
      this.#annotate(owner, { [annotation(key)]: value });
    this.#onOwners = {
      delete: (owner) => this.#delete(owner, "Background"),
      deleteForeground: (owner) => this.#delete(owner, "Foreground"),
      deleteOrphan: (owner) => this.#delete(owner, "Orphan"),
      deleteStatefulSet: () => this.#deleteSet(),
      stopAll: (owner) => annotate(owner, "stop-all", annotationOf(owner, "stop-all") === "true" ? null : "true"),
      strip: (owner) => this.#keepFinalizers(owner, (one) => one !== ourFinalizer),
      optOut: (owner) => annotate(owner, "skip-label", askedLabel(owner) === undefined ? asking(owner) : "none"),
      deadline: (owner) => annotate(owner, "skip-deadline", draw.pick(["10s", "60s", "soon", null])),
      edit: (owner) => this.#annotate(owner, { edited: String(world.timeline.nowMs()) }),
      hold: (owner) => this.#hold(owner),
      scale: () => this.#scale(),
    };
  }

  isRefused(pod: string): boolean {
    const { isFaulty, world } = this.#run;
    return isFaulty() && world.timeline.nowMs() < this.#refused.untilMs && this.#refused.of.test(pod);
  }

  /** Throws ClusterError if the API server refuses. */
  do(deed: SkipDeed): void {
    const { draw } = this.#run;
    const owners = this.#owners();
    const pods = this.#pods();
    if (deed === "deleteNamespace") this.#deleteNamespace();
    else if (deed === "refuse") this.#refuse();
    else if (!onPods.has(deed) && owners.length > 0) this.#toOwner(deed, draw.pick(owners));
    else if (onPods.has(deed) && pods.length > 0) this.#toPod(deed, draw.pick(pods));
  }

  #toOwner(deed: SkipDeed, owner: StoredObject): void {
    const { name, uid } = owner.metadata;
    this.#run.log("user", `${deed} ${name} ${uid.slice(0, 8)}`);
    this.#onOwners[deed]?.(owner);
  }

  #toPod(deed: SkipDeed, { metadata }: StoredPod): void {
    const { log, world } = this.#run;
    log("user", `${deed} ${metadata.name} ${metadata.uid.slice(0, 8)}`);
    if (deed === "deletePod") {
      world.store.delete("pods", metadata, { preconditions: { uid: metadata.uid } });
      return;
    }
    this.#checker.touch(metadata.uid);
    const [key = "", value = "true"] = (metadata.annotations?.[hookAnnotation] ?? "").split("=");
    const labels = { [key]: deed === "unlabel" ? null : value };
    world.store.patch("pods", metadata, { metadata: { labels } });
  }

  #delete({ kind, metadata }: StoredObject, propagationPolicy: "Background" | "Foreground" | "Orphan"): void {
    const preconditions = { uid: metadata.uid };
    this.#run.world.store.delete(resourceOf(kind), keyOf(metadata), { propagationPolicy, preconditions });
  }

  #deleteNamespace(): void {
    this.#run.log("user", "deletes the namespace");
    this.#run.world.store.delete("namespaces", { namespace: "", name: namespace }, {});
  }

  #deleteSet(): void {
    const { world, draw } = this.#run;
    const sets = world.store.list("statefulsets", { namespace }).items.filter(({ metadata }) => {
      return metadata.ownerReferences !== undefined && metadata.deletionTimestamp === undefined;
    });
    if (sets.length > 0) this.#delete(draw.pick(sets), draw.pick(["Background", "Orphan"]));
  }

  #scale(): void {
    const { world, draw, plan } = this.#run;
    const sets = world.store.list("statefulsets", { namespace }).items;
    const replicas = draw.whole(0, plan.skipLabels?.replicas ?? 0);
    if (sets.length > 0) world.scale(draw.pick(sets).metadata, replicas);
  }

  /** Another controller adds a finalizer to the owner, and removes it much later. */
  #hold(owner: StoredObject): void {
    if (isDeleted(owner)) return;
    const { world, draw } = this.#run;
    this.#keepFinalizers(owner, (one) => one !== otherFinalizer, [otherFinalizer]);
    world.timeline.after(draw.between(10_000, 120_000), () => this.#letGo(owner));
  }

  #letGo({ kind, metadata }: StoredObject): void {
    const now: StoredObject | undefined = this.#run.world.store.find(resourceOf(kind), keyOf(metadata));
    if (now?.metadata.uid === metadata.uid) this.#keepFinalizers(now, (one) => one !== otherFinalizer);
  }

  #keepFinalizers({ kind, metadata }: StoredObject, isKept: (one: string) => boolean, more: string[] = []): void {
    const finalizers = [...(metadata.finalizers ?? []).filter(isKept), ...more];
    this.#run.world.store.patch(resourceOf(kind), keyOf(metadata), { metadata: { finalizers } });
  }

  #annotate({ kind, metadata }: StoredObject, annotations: Readonly<Record<string, string | null>>): void {
    this.#run.world.annotate(keyOf(metadata), annotations, resourceOf(kind));
  }

  #refuse(): void {
    const { world, draw, plan, log } = this.#run;
    const { refuseMs = 0 } = plan.skipLabels ?? {};
    const of = draw.pick([/-0$/, /-[01]$/, /./]);
    log("webhook", `refuses the labels of ${of}`);
    this.#refused = { untilMs: world.timeline.nowMs() + draw.between(0, refuseMs), of };
  }

  /** The owners that users do something to. */
  #owners(): readonly StoredObject[] {
    return this.#checker
      .owners()
      .filter(({ kind, metadata }) => kind === "RabbitmqCluster" || metadata.name === quorum);
  }

  #pods(): readonly StoredPod[] {
    const { items } = this.#run.world.store.list("pods", { namespace });
    return items.filter(({ metadata }) => {
      return metadata.deletionTimestamp === undefined && !metadata.name.startsWith(foreign);
    });
  }

  /** Removes the finalizers of the other controller, and the deadlines that users gave to owners. */
  makePeace(): void {
    for (const owner of this.#owners()) this.#letGo(owner);
    for (const owner of this.#owners())
      if (!isDeleted(owner)) this.#annotate(owner, { [annotation("skip-deadline")]: null });
  }

  deleteAll(): void {
    for (const owner of this.#owners()) {
      if (isDeleted(owner)) continue;
      this.#run.log("user", `deletes ${owner.metadata.name}, last of all`);
      if (hasOurFinalizer(owner)) this.#checker.lastOf(owner);
      this.#delete(owner, "Background");
    }
  }
}

const onPods = new Set<SkipDeed>(["deletePod", "unlabel", "labelByHand"]);

/** The label that the stop hooks of an owner's pods wait for. */
function asking({ kind }: StoredObject): string {
  return kind === "StatefulSet" ? quorumLabel : rabbitLabel;
}

function resourceOf(kind: string): Resource {
  return kind === "StatefulSet" ? "statefulsets" : "rabbitmqclusters";
}

function keyOf({ namespace = "", name }: StoredObject["metadata"]) {
  return { namespace, name };
}
