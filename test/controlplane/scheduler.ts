import { setTimeout as delay } from "node:timers/promises";
import { Api, type ApiAccess } from "./api.ts";
import { BACK_OFF_MS, follow } from "./follow.ts";

interface Node {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec?: { readonly unschedulable?: boolean; readonly taints?: readonly { readonly effect: string }[] };
}

interface WaitingPod {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly uid: string };
  readonly spec: { readonly nodeSelector?: Readonly<Record<string, string>> };
}

const keepsAway = new Set(["NoSchedule", "NoExecute"]);

/**
 * Plays the scheduler: each pod without a node gets one that is not cordoned or tainted and that its nodeSelector fits, of
 * several the one with the fewest pods so far. A pod without such a node waits. Resources, affinities and tolerations have no
 * effect.
 */
export class Scheduler {
  readonly #api: Api;
  readonly #waiting = new Map<string, WaitingPod>();
  /** Pods whose binding is under way, by uid. */
  readonly #binding = new Set<string>();
  readonly #nodes = new Map<string, Node>();
  /** How many pods each node was given, by its name. */
  readonly #given = new Map<string, number>();
  readonly #stopping = new AbortController();
  readonly #following: Promise<void>[] = [];

  private constructor(api: Api) {
    this.#api = api;
  }

  /** Resolves when every node is known. Throws if the API server refuses. */
  static async start(access: ApiAccess): Promise<Scheduler> {
    const api = await Api.open(access, { userAgent: "sluice-test-scheduler" });
    const scheduler = new Scheduler(api);
    try {
      await scheduler.#begin();
    } catch (error) {
      await scheduler.stop();
      throw error;
    }
    return scheduler;
  }

  /** Leaves all pods as they are. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#api.close();
    await Promise.all(this.#following);
  }

  async #begin(): Promise<void> {
    const { signal } = this.#stopping;
    const nodes = await follow<Node>(
      this.#api,
      {
        path: "/api/v1/nodes",
        known: this.#nodes,
        seen: (node) => {
          this.#nodes.set(node.metadata.uid, node);
          this.#place();
        },
        gone: (uid) => void this.#nodes.delete(uid),
      },
      signal,
    );
    this.#following.push(nodes.ended);
    const pods = await follow<WaitingPod>(
      this.#api,
      {
        path: "/api/v1/pods?fieldSelector=spec.nodeName=",
        known: this.#waiting,
        seen: (pod) => {
          this.#waiting.set(pod.metadata.uid, pod);
          this.#place();
        },
        gone: (uid) => void this.#waiting.delete(uid),
      },
      signal,
    );
    this.#following.push(pods.ended);
  }

  #place(): void {
    for (const [uid, pod] of this.#waiting) {
      const node = this.#binding.has(uid) ? undefined : this.#nodeFor(pod);
      if (node === undefined) continue;
      this.#binding.add(uid);
      this.#given.set(node, (this.#given.get(node) ?? 0) + 1);
      void this.#bind(pod, node).finally(() => {
        this.#binding.delete(uid);
        if (!this.#stopping.signal.aborted) this.#place();
      });
    }
  }

  #nodeFor({ spec }: WaitingPod): string | undefined {
    const wanted = Object.entries(spec.nodeSelector ?? {});
    const fitting = [...this.#nodes.values()]
      .filter(({ spec }) => spec?.unschedulable !== true && !spec?.taints?.some(({ effect }) => keepsAway.has(effect)))
      .filter(({ metadata }) => wanted.every(([key, value]) => metadata.labels?.[key] === value))
      .map(({ metadata }) => metadata.name);
    const given = (name: string): number => this.#given.get(name) ?? 0;
    return fitting.sort((one, other) => given(one) - given(other))[0];
  }

  /** Resolves when the pod has a node, or is gone, or after a pause if neither is known. */
  async #bind({ metadata }: WaitingPod, node: string): Promise<void> {
    const { namespace, name, uid } = metadata;
    const target = { apiVersion: "v1", kind: "Node", name: node };
    const binding = { apiVersion: "v1", kind: "Binding", metadata: { name, uid }, target };
    const path = `/api/v1/namespaces/${namespace}/pods/${name}/binding`;
    const status = await this.#api
      .send("POST", path, binding)
      .then(async ({ statusCode, body }) => {
        await body.dump();
        return statusCode;
      })
      .catch(() => 0);
    if (status === 201 || status === 404 || status === 409) this.#waiting.delete(uid);
    else await delay(BACK_OFF_MS.first, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }
}
