/**
 * A small group in the fake cluster, rolled and drained by the shipped functions. Nothing is left to chance: only what the
 * story of an accident says happens, while a referee counts the pods that are really down.
 */
import { advanceZoneRollout } from "../../../functions/advance-zone-rollout/function.ts";
import { evaluateEviction } from "../../../functions/evaluate-eviction/function.ts";
import { pinningPath, plainPaths } from "../../../functions/evaluate-eviction/observe.ts";
import type {
  AdmissionAnswer,
  AdmissionHandler,
  AdmissionRequest,
} from "../../../functions/shared/admission/definition.ts";
import type { Context } from "../../../functions/shared/contract/context.ts";
import type { FunctionDefinition } from "../../../functions/shared/contract/definition.ts";
import { createMemory } from "../../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../../functions/shared/contract/reporter.ts";
import type { PodHttp } from "../../../functions/shared/http/pod-http.ts";
import { protocol } from "../../../functions/shared/ledger/protocol.ts";
import type { GroupKey } from "../../../functions/shared/workloads/statefulsets.ts";
import type { StoredPod } from "../../fake-cluster/objects.ts";
import { createWorldPodHttp } from "../../fake-cluster/pod-http.ts";
import { VirtualTimeline } from "../../fake-cluster/timeline.ts";
import { createWorld, type World } from "../../fake-cluster/world.ts";
import { createWorldCluster } from "../../fake-cluster/world-cluster.ts";
import { askedOf } from "../../support/asked-eviction.ts";
import { isUp, ordinalIn, wantedOrdinals } from "../../support/checkers/raw.ts";
import { evictionOf } from "../../support/review.ts";
import { createDraw } from "../draw.ts";
import { startReplica, type Wrappers } from "../replica.ts";
import { Ingesters } from "../scaling/ingesters.ts";
import { newProcess } from "../simulated-cluster.ts";
import { createStaleViews, RevisionClock } from "../stale-views.ts";

export const namespace = "db";
export const group = "db";

/** What exists before anything goes wrong. Every field has a default: a healthy, quick group of one kind. */
export interface Start {
  /** Default: a, b and c. */
  readonly zones?: readonly string[];
  /** Replicas of each zone; default 3. */
  readonly replicas?: number;
  /** Annotation `rollout-max-unavailable` of the StatefulSets; absent: one pod of a zone. */
  readonly maxUnavailable?: number;
  /** The spec of the ZoneAwarePodDisruptionBudget without its selector; default: one pod of a zone. */
  readonly budget?: object;
  /** A PodDisruptionBudget over all pods. */
  readonly disruptionBudget?: { readonly spec: object; readonly status: object };
  /** Functions, each in a process of its own. Default: the rollout. */
  readonly functions?: readonly FunctionDefinition<GroupKey>[];
  /**
   * Webhooks, each in a process of its own. The views of a `stale` one are as old as rule R5 allows. Default: one fresh
   * webhook.
   */
  readonly webhooks?: readonly ("fresh" | "stale")[];
  readonly nodesPerZone?: number;
}

/** How an eviction is sent, and whether it is carried out. */
export interface Way {
  /** Index of the webhook process that the API server asks. */
  readonly of?: number;
  /** The uid that the client asks for in its preconditions. */
  readonly uid?: string;
  /** False: the webhook is a validating one and cannot pin the uid. */
  readonly isPinned?: boolean;
  /** Time that the API server takes to carry it out, in milliseconds; infinite: the client has gone, and nothing happens. */
  readonly afterMs?: number;
}

export interface Reported {
  readonly guard: string;
  readonly zone: string;
  readonly message: string;
}

export class Scene {
  readonly world: World;
  /** The program in the pods, which can be told to leave. */
  readonly ingesters: Ingesters;
  /** Reports of the reconciles, in order. */
  readonly reported: Reported[] = [];
  /** Promises that did not hold. */
  readonly broken: string[] = [];
  /** The most zones that were not whole at one time, and the most pods that were down in one zone. */
  readonly worst = { zones: 0, pods: 0 };
  /** Delay of the StatefulSet controller, in milliseconds. A long one plays a quota that refuses pods. */
  controllerDelayMs = 5;
  readonly #timeline = new VirtualTimeline();
  readonly #wrappers: Wrappers;
  readonly #revisions = new RevisionClock();
  readonly #webhooks: { readonly handler: AdmissionHandler; readonly monotonicMs: () => number }[] = [];
  #reviews = 0;

  /** Opens a group that has existed for a while, so that every ledger is old enough to permit something. */
  static async open(start: Start, wrappers: Wrappers): Promise<Scene> {
    const scene = new Scene(start, wrappers);
    await scene.goOn(45);
    return scene;
  }

  private constructor(start: Start, wrappers: Wrappers) {
    const { zones = ["a", "b", "c"], replicas = 3, maxUnavailable, nodesPerZone = 3 } = start;
    this.#wrappers = wrappers;
    this.world = createWorld({
      timeline: this.#timeline,
      controllerDelayMs: () => this.controllerDelayMs,
      keepVersions: true,
      nodesPerZone,
    });
    this.ingesters = new Ingesters(this.world, createDraw(1), () => ({ refuse: 0, rubbish: 0, silent: 0 }));
    this.#addBudgets(start);
    const limit = maxUnavailable === undefined ? {} : { maxUnavailable };
    if (zones.length > 0) this.world.addGroup({ namespace, group, zones, replicas, ...limit });
    this.world.settle();
    const { store } = this.world;
    for (const resource of ["pods", "statefulsets", "leases"] as const)
      store.onChange(resource, () => this.#revisions.note(this.#timeline.nowMs(), store.revision));
    this.#revisions.note(this.#timeline.nowMs(), store.revision);
    store.onChange("pods", () => this.#count());
    const { functions = [advanceZoneRollout], webhooks = ["fresh"] } = start;
    for (const definition of functions) this.#startFunction(definition);
    for (const views of webhooks) this.#startWebhook(views === "stale");
  }

  #addBudgets({ budget = { maxUnavailable: 1 }, disruptionBudget }: Start): void {
    const { store } = this.world;
    const selector = { matchLabels: { "rollout-group": group } };
    const kind = "ZoneAwarePodDisruptionBudget";
    const metadata = { name: "budget" };
    store.create("zoneawarepoddisruptionbudgets", namespace, { kind, metadata, spec: { selector, ...budget } });
    if (disruptionBudget === undefined) return;
    const { spec, status } = disruptionBudget;
    store.create("poddisruptionbudgets", namespace, { metadata: { name: "pdb" }, spec: { selector, ...spec } });
    store.patch("poddisruptionbudgets", { namespace, name: "pdb" }, { status }, "status");
  }

  /** Views are current, or as old as rule R5 allows. */
  #connect(isStale: boolean) {
    const { world } = this;
    const cluster = createWorldCluster(world);
    const staleness = () => ({ oldest: isStale ? 1 : 0, between: 0 });
    const onView = () => undefined;
    const draw = createDraw(1);
    return { cluster, draw, cache: createStaleViews({ world, cluster, draw, staleness, onView }, this.#revisions) };
  }

  #startFunction(definition: FunctionDefinition<GroupKey>): void {
    const { draw, ...connected } = this.#connect(false);
    const pods = this.#podsFrom(connected.cluster);
    const connection = { ...connected, process: newProcess(definition.name), onVerdict: () => undefined };
    const replica = startReplica(connection, {
      draw,
      wrappers: this.#wrappers,
      sweepMs: 30_000,
      sweepsAtOnce: 1,
      log: (_who, what) => {
        const [, guard, zone, message] = /^verdict (\S+) (\S*): (.*)$/s.exec(what) ?? [];
        if (guard !== undefined) this.reported.push({ guard, zone: zone ?? "", message: message ?? "" });
      },
      definition,
      pods,
    });
    const trigger = () => replica.trigger({ namespace, group }, false);
    for (const resource of ["pods", "statefulsets"] as const) this.world.store.onChange(resource, trigger);
  }

  #startWebhook(isStale: boolean): void {
    const context = this.contextOf(isStale);
    this.#webhooks.push({ handler: evaluateEviction.open(context), monotonicMs: () => context.cluster.monotonicMs() });
  }

  /** The context of one more webhook process. */
  contextOf(isStale = false): Context {
    const { cluster, cache } = this.#connect(isStale);
    const { cluster: wrapCluster, cache: wrapViews, protocol: wrapProtocol } = this.#wrappers;
    return {
      cluster: wrapCluster?.(cluster) ?? cluster,
      cache: wrapViews?.(cache) ?? cache,
      protocol: wrapProtocol?.(protocol) ?? protocol,
      reporter: silentReporter,
      mode: "act",
      namespaces: undefined,
      memoryOf: createMemory(),
      pods: this.#podsFrom(cluster),
      // The story says when a client asks again, so no eviction waits for its turn.
      settings: { evictionWaitMs: 0 },
    };
  }

  #podsFrom(clock: Context["cluster"]): PodHttp {
    const pods = createWorldPodHttp({ world: this.world, clock, answer: this.ingesters.answer });
    return this.#wrappers.pods?.(pods) ?? pods;
  }

  /** The answer of a webhook, awaited in virtual time. */
  review(handler: AdmissionHandler, request: AdmissionRequest): Promise<AdmissionAnswer> {
    return this.#played(handler.review(this.#wrappers.request?.(request) ?? request));
  }

  /** Counts the wanted pods that are missing or not ready in the fake cluster itself. */
  #count(): void {
    const { store } = this.world;
    const down = store.list("statefulsets", { namespace }).items.map((set) => {
      const up = new Set<number>();
      for (const pod of store.ownedBy("pods", set.metadata.uid)) if (isUp(pod)) up.add(ordinalIn(pod.metadata.name));
      return wantedOrdinals(set).filter((ordinal) => !up.has(ordinal)).length;
    });
    this.worst.zones = Math.max(this.worst.zones, down.filter((count) => count > 0).length);
    this.worst.pods = Math.max(this.worst.pods, ...down);
  }

  /** The clock that deadlines are measured by. */
  monotonicMs(): number {
    return this.#connect(false).cluster.monotonicMs();
  }

  async goOn(seconds: number): Promise<void> {
    let isOver = false;
    this.#timeline.after(seconds * 1_000, () => {
      isOver = true;
    });
    await this.#timeline.run(() => isOver);
  }

  /** Records the message as a broken promise unless the condition holds. */
  holds(message: string, condition: boolean): void {
    if (!condition) this.broken.push(message);
  }

  /** The existing pods of the group, by name. */
  pods(): StoredPod[] {
    return [...this.world.store.list("pods", { namespace }).items];
  }

  uid(name: string): string | undefined {
    return this.world.store.find("pods", { namespace, name })?.metadata.uid;
  }

  /** True when every pod runs the wanted revision, and is ready. */
  isRolled(): boolean {
    return this.world.store.list("statefulsets", { namespace }).items.every(({ metadata, spec, status }) => {
      const pods = [...this.world.store.ownedBy("pods", metadata.uid)].filter(isUp);
      const isNew = (pod: StoredPod) => pod.metadata.labels?.["controller-revision-hash"] === status.updateRevision;
      return pods.length === spec.replicas && pods.every(isNew);
    });
  }

  /** Gives every StatefulSet another image, which begins a rollout. */
  roll(image = "app:2"): void {
    for (const { metadata } of this.world.store.list("statefulsets", { namespace }).items)
      this.world.changeTemplate(metadata, image);
  }

  /** Evicts a pod by name. Resolves to the webhook's answer; the API server carries out later what it allows. */
  evict(name: string, way: Way = {}): Promise<AdmissionAnswer> {
    return this.#played(this.#ask(name, way));
  }

  async #ask(name: string, { of = 0, uid, isPinned = true, afterMs = 5 }: Way): Promise<AdmissionAnswer> {
    const webhook = this.#webhooks[of];
    if (webhook === undefined) throw new Error(`there is no webhook ${of}`);
    const options = uid === undefined ? {} : { deleteOptions: { preconditions: { uid } } };
    const pod = { namespace, name };
    const request = askedOf(pod, {
      uid: `review-${++this.#reviews}`,
      object: { ...evictionOf(pod), ...options },
      path: isPinned ? pinningPath : plainPaths[0],
      deadlineMs: webhook.monotonicMs() + 9_000,
    });
    const reported = await webhook.handler.review(this.#wrappers.request?.(request) ?? request);
    const answer = this.#wrappers.answer?.(reported) ?? reported;
    if (answer.allowed) this.#carryOut(name, uid ?? pinnedUid(answer.patch), afterMs);
    return answer;
  }

  #carryOut(name: string, uid: string | undefined, afterMs: number): void {
    if (!Number.isFinite(afterMs)) return;
    this.#timeline.after(afterMs, () => {
      const now = this.world.store.find("pods", { namespace, name });
      // The API server would answer 404 or 409: it does nothing.
      if (now === undefined || (uid !== undefined && now.metadata.uid !== uid)) return;
      this.world.store.delete("pods", { namespace, name }, {});
    });
  }

  /** Drains as `kubectl drain` does: it asks every five seconds for each pod that still exists. Resolves when all are gone. */
  async drain(pods: readonly StoredPod[], withinSeconds: number): Promise<void> {
    const left = new Map(pods.map(({ metadata: { name, uid } }) => [name, uid]));
    for (let seconds = 0; seconds < withinSeconds && left.size > 0; seconds += 5) {
      const asked = [...left.keys()].map((name, index) => {
        return this.#ask(name, { of: index % this.#webhooks.length, afterMs: 500 });
      });
      await this.#played(Promise.all(asked));
      await this.goOn(5);
      for (const [name, uid] of left) if (this.uid(name) !== uid) left.delete(name);
    }
  }

  async #played<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const done = () => {
      isSettled = true;
    };
    promise.then(done, done);
    await this.#timeline.run(() => isSettled);
    return promise;
  }

  stop(): void {
    this.world.stop();
  }
}

function pinnedUid(patch: readonly object[] = []): string | undefined {
  const [operation] = patch as readonly { readonly value?: { readonly preconditions?: { readonly uid?: string } } }[];
  return operation?.value?.preconditions?.uid;
}
