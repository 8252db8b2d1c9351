import { setTimeout as delay } from "node:timers/promises";
import type { Dispatcher } from "undici";
import { Api, type ApiAccess } from "./api.ts";
import type { Log } from "./build.ts";
import { BACK_OFF_MS, follow } from "./follow.ts";
import { createNode } from "./nodes.ts";
import { isBrokenImage, isReady, type Pod, podAddress, podStatus, type WaitingReason } from "./podstatus.ts";
import { Scheduler } from "./scheduler.ts";

/** Per-pod settings, as annotations on the pod. */
export const ANNOTATIONS = {
  /** Milliseconds from the pod's creation to its readiness. */
  readyAfterMs: "test.sluice.dev/ready-after-ms",
  /** Milliseconds from the pod's deletion to its end. */
  goneAfterMs: "test.sluice.dev/gone-after-ms",
  /** What a container of a `broken` image waits for. */
  waitingReason: "test.sluice.dev/waiting-reason",
} as const;

export interface KubeletOptions {
  /** Default 1000. */
  readonly podsReadyAfterMs?: number;
  /** Default 0. */
  readonly podsGoneAfterMs?: number;
  /** How many Node objects to make: node-1, node-2, ... Default 1. Pods of any other node name are played too. */
  readonly nodes?: number;
  /** False: it makes nodes and schedules, and kubelets of the test's own play the pods. Default true. */
  readonly playsPods?: boolean;
  /** Is told when the API server refuses what the kubelet writes, once per pod; it tries on. */
  readonly log?: Log;
}

interface Tracked {
  pod: Pod;
  readonly seen: Date;
  /** Undefined until a test decides: then the image does not matter any more. */
  broken: string | false | undefined;
  /** A pod's life goes one way: it starts, has had its status, is going, and the API server was told that it is gone. */
  stage: "starting" | "started" | "going" | "gone";
  timer: NodeJS.Timeout | undefined;
}

const MERGE_PATCH = "application/merge-patch+json";
const CRASHING = "CrashLoopBackOff";

/**
 * Plays the kubelets of a whole cluster, and its scheduler: each pod with a node gets one status, Running and Ready, some time
 * after its binding, and goes some time after its deletion. Nothing runs. A terminating pod stays Ready until it is gone, and
 * readiness gates have no effect.
 */
export class Kubelet {
  readonly #api: Api;
  /** By uid, because a namesake may exist before the watch reports that its predecessor is gone. */
  readonly #pods = new Map<string, Tracked>();
  readonly #log: Log;
  readonly #reported = new Set<string>();
  readonly #stopping = new AbortController();
  #readyAfterMs: number;
  #goneAfterMs: number;
  #addresses = 0;
  #following: Promise<void> = Promise.resolve();
  #scheduler: Scheduler | undefined;

  private constructor(api: Api, options: KubeletOptions) {
    this.#api = api;
    this.#log = options.log ?? (() => {});
    this.#readyAfterMs = options.podsReadyAfterMs ?? 1_000;
    this.#goneAfterMs = options.podsGoneAfterMs ?? 0;
  }

  /** Creates the nodes, and resolves when every existing pod is known. Throws if the API server refuses. */
  static async start(access: ApiAccess, options: KubeletOptions = {}): Promise<Kubelet> {
    const api = await Api.open(access, { userAgent: "sluice-test-kubelet", connections: 12 });
    const kubelet = new Kubelet(api, options);
    try {
      for (let n = 1; n <= (options.nodes ?? 1); n++) {
        const zone = `zone-${String.fromCharCode(97 + ((n - 1) % 26))}`;
        await createNode(api, { name: `node-${n}`, zone });
      }
      kubelet.#scheduler = await Scheduler.start(access);
      if (options.playsPods ?? true) await kubelet.#begin();
    } catch (error) {
      await kubelet.stop();
      throw error;
    }
    return kubelet;
  }

  /** For pods seen from now on. */
  setReadyAfter(ms: number): void {
    this.#readyAfterMs = ms;
  }

  /** For deletions seen from now on. */
  setGoneAfter(ms: number): void {
    this.#goneAfterMs = ms;
  }

  /** Makes a pod not Ready until it is healed or replaced. Resolves when the API server has it. Throws if it cannot. */
  async breakPod(namespace: string, name: string, reason: string = CRASHING): Promise<void> {
    await this.#decide(namespace, name, reason);
  }

  /** Makes a pod Ready at once, whatever its image. Resolves when the API server has it. Throws if it cannot. */
  async healPod(namespace: string, name: string): Promise<void> {
    await this.#decide(namespace, name, false);
  }

  /** Leaves all pods as they are. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const { timer } of this.#pods.values()) clearTimeout(timer);
    await this.#scheduler?.stop();
    await this.#api.close();
    await this.#following;
  }

  async #begin(): Promise<void> {
    const follower = {
      path: "/api/v1/pods?fieldSelector=spec.nodeName!=",
      known: this.#pods,
      seen: (pod: Pod) => void this.#observe(pod),
      gone: (uid: string) => this.#forget(uid),
    };
    const { ended } = await follow<Pod>(this.#api, follower, this.#stopping.signal);
    this.#following = ended;
  }

  #forget(uid: string): void {
    const tracked = this.#pods.get(uid);
    if (!tracked) return;
    clearTimeout(tracked.timer);
    tracked.stage = "gone";
    this.#pods.delete(uid);
  }

  #observe(pod: Pod): Tracked {
    // The greater part of a pod, of which thousands are kept, and which is of no use here.
    delete pod.metadata.managedFields;
    let tracked = this.#pods.get(pod.metadata.uid);
    if (!tracked) {
      const stage = isReady(pod) ? "started" : "starting";
      tracked = { pod, seen: new Date(), broken: undefined, stage, timer: undefined };
      this.#pods.set(pod.metadata.uid, tracked);
      if (tracked.stage === "starting") {
        this.#after(tracked, setting(pod, ANNOTATIONS.readyAfterMs, this.#readyAfterMs), this.#start);
      }
    }
    tracked.pod = pod;
    if (pod.metadata.deletionTimestamp !== undefined && (tracked.stage === "starting" || tracked.stage === "started")) {
      tracked.stage = "going";
      this.#after(tracked, setting(pod, ANNOTATIONS.goneAfterMs, this.#goneAfterMs), this.#end);
    }
    return tracked;
  }

  #after(tracked: Tracked, ms: number, act: (tracked: Tracked) => Promise<void>): void {
    clearTimeout(tracked.timer);
    if (ms <= 0) void act.call(this, tracked);
    else tracked.timer = setTimeout(() => void act.call(this, tracked), ms);
  }

  async #start(tracked: Tracked): Promise<void> {
    await this.#persist(tracked, "starting", () => this.#sendStatus(tracked));
    if (tracked.stage === "starting") tracked.stage = "started";
  }

  /** A pod with finalizers stays in the API server until they are gone, without a further request from here. */
  async #end(tracked: Tracked): Promise<void> {
    const { namespace, name, uid } = tracked.pod.metadata;
    const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
    await this.#persist(tracked, "going", async () => {
      const answer = await this.#api.send("DELETE", path, { gracePeriodSeconds: 0, preconditions: { uid } });
      return this.#statusOf(answer, tracked);
    });
    if (tracked.stage === "going") tracked.stage = "gone";
  }

  /** Sends until the API server has it, or has no such pod any more, or the pod has reached another stage. */
  async #persist(tracked: Tracked, stage: Tracked["stage"], send: () => Promise<number>): Promise<void> {
    let backOffMs = BACK_OFF_MS.first;
    while (tracked.stage === stage && !this.#stopping.signal.aborted) {
      const status = await send().catch(() => 0);
      if (status === 404 || status === 409 || (status >= 200 && status < 300)) return;
      await this.#pause(backOffMs);
      backOffMs = Math.min(backOffMs * 2, BACK_OFF_MS.most);
    }
  }

  /** The uid makes it a conflict when a namesake has taken the pod's place. */
  async #sendStatus(tracked: Tracked): Promise<number> {
    const { pod, seen } = tracked;
    const { namespace, name, uid } = pod.metadata;
    const times = { now: new Date(), seen };
    const status = podStatus(pod, waitingIn(tracked), podAddress(++this.#addresses), times);
    const path = `/api/v1/namespaces/${namespace}/pods/${name}/status`;
    const answer = await this.#api.send("PATCH", path, { metadata: { uid }, status }, MERGE_PATCH);
    return this.#statusOf(answer, tracked);
  }

  async #statusOf(answer: Dispatcher.ResponseData, { pod, stage }: Tracked): Promise<number> {
    const { statusCode } = answer;
    if (statusCode < 300 || statusCode === 404 || statusCode === 409) await answer.body.dump();
    else this.#refused(`${pod.metadata.namespace}/${pod.metadata.name}`, stage, await answer.body.text());
    return statusCode;
  }

  #refused(pod: string, stage: string, text: string): void {
    const key = `${pod} ${stage}`;
    if (this.#reported.has(key)) return;
    this.#reported.add(key);
    this.#log(`kubelet: pod ${pod} (${stage}) was refused: ${text}`);
  }

  async #decide(namespace: string, name: string, broken: string | false): Promise<void> {
    const pod = await this.#api.get<Pod>(`/api/v1/namespaces/${namespace}/pods/${name}`);
    const tracked = this.#observe(pod);
    tracked.broken = broken;
    // A pod that must break before it was ready gets its status now, and not a second one later.
    clearTimeout(tracked.stage === "starting" ? tracked.timer : undefined);
    if (tracked.stage === "starting") tracked.stage = "started";
    const status = await this.#sendStatus(tracked);
    if (status >= 300) throw new Error(`the status of pod ${namespace}/${name} was refused: ${status}`);
  }

  #pause(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }
}

function setting(pod: Pod, annotation: string, otherwise: number): number {
  const text = pod.metadata.annotations?.[annotation];
  const value = Number(text);
  return text !== undefined && text !== "" && Number.isFinite(value) ? value : otherwise;
}

function waitingIn({ pod, broken }: Tracked): (container: { image: string }) => WaitingReason {
  if (broken === false) return () => undefined;
  if (broken !== undefined) return () => broken;
  const reason = pod.metadata.annotations?.[ANNOTATIONS.waitingReason] || CRASHING;
  return ({ image }) => (isBrokenImage(image) ? reason : undefined);
}
