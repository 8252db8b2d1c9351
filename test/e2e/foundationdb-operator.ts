/** The stand-in for FoundationDB's operator at work on a real API server. */
import { setTimeout as delay } from "node:timers/promises";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { type Api, eventually } from "../controlplane/api.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { type ClusterObject, type GroupStatus, labels, operate } from "../support/foundationdb.ts";

interface Listed {
  readonly items: readonly Seen[];
}

interface Seen {
  readonly metadata: Metadata;
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

const apiVersion = "apps.foundationdb.org/v1beta2";
/** Time for which the database moves data by default. */
const usualDrainMs = 1_000;
const everyMs = 250;

export class FoundationOperator {
  /** The ids whose volume claims it has deleted itself. */
  readonly deletedClaims: string[] = [];
  /** The ids that are removed as a whole. */
  readonly included: string[] = [];
  readonly #api: Api;
  readonly #namespace: string;
  readonly #name: string;
  readonly #drainMs: number;
  readonly #ending = new AbortController();
  #working: Promise<void> = Promise.resolve();

  private constructor(api: Api, namespace: string, name: string, drainMs: number) {
    this.#drainMs = drainMs;
    this.#api = api;
    this.#namespace = namespace;
    this.#name = name;
  }

  /** A cluster with these process groups, and a pod and a volume claim for each. `ids`: the fault domain of each. */
  static async start(
    api: Api,
    {
      namespace,
      name,
      ids,
      annotations,
      spec,
      drainMs = usualDrainMs,
    }: {
      readonly namespace: string;
      readonly name: string;
      readonly ids: ReadonlyMap<string, string>;
      readonly annotations: Readonly<Record<string, string>>;
      readonly spec: object;
      /** For how long the database moves data. A removal that is over sooner than Sluice has seen it is held back no more. */
      readonly drainMs?: number;
    },
  ): Promise<FoundationOperator> {
    const operator = new FoundationOperator(api, namespace, name, drainMs);
    const metadata = { name, annotations };
    await api.post(operator.#clusters, { apiVersion, kind: "FoundationDBCluster", metadata, spec });
    const processGroups = [...ids].map(([processGroupID, faultDomain], index): GroupStatus => {
      const addresses = [`10.1.0.${index + 1}:4501`];
      return { processGroupID, processClass: "storage", addresses, faultDomain, processGroupConditions: [] };
    });
    await api.patch(`${operator.#cluster}/status`, { status: { processGroups } });
    operator.#working = operator.#work();
    await eventually("every process group ready", 60_000, async () =>
      (await operator.readyPods()) === ids.size ? true : undefined,
    );
    return operator;
  }

  get #clusters(): string {
    return `/apis/${apiVersion}/namespaces/${this.#namespace}/foundationdbclusters`;
  }

  get #cluster(): string {
    return `${this.#clusters}/${this.#name}`;
  }

  read(): Promise<ClusterObject> {
    return this.#api.get<ClusterObject>(this.#cluster);
  }

  change(body: object): Promise<unknown> {
    return this.#api.patch(this.#cluster, body);
  }

  async readyPods(): Promise<number> {
    const { items } = await this.#list("pods");
    return items.filter(({ status }) =>
      status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True"),
    ).length;
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#working;
  }

  #core(resource: string): string {
    return `/api/v1/namespaces/${this.#namespace}/${resource}`;
  }

  #list(resource: string): Promise<Listed> {
    const selector = encodeURIComponent(`${labels.cluster}=${this.#name}`);
    return this.#api.get<Listed>(`${this.#core(resource)}?labelSelector=${selector}`);
  }

  async #work(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      await this.#reconcile();
      await delay(everyMs, undefined, { signal }).catch(() => {});
    }
  }

  async #reconcile(): Promise<void> {
    const cluster = await this.read();
    const [pods, claims] = await Promise.all([this.#list("pods"), this.#list("persistentvolumeclaims")]);
    const done = operate(cluster, {
      pods: pods.items,
      claims: claims.items,
      nowMs: Date.now(),
      drainMs: this.#drainMs,
    });
    for (const id of done.madeClaims) await this.#makeClaim(id, cluster);
    for (const id of done.madePods) await this.#makePod(id, cluster);
    for (const id of done.deleted) {
      await this.#delete("pods", pods, id);
      if (await this.#delete("persistentvolumeclaims", claims, id)) this.deletedClaims.push(id);
    }
    this.included.push(...done.included);
    if (JSON.stringify(done.processGroups) === JSON.stringify(cluster.status?.processGroups)) return;
    const { resourceVersion } = cluster.metadata;
    const status = { processGroups: done.processGroups };
    // If another client has written the cluster meanwhile, the next turn reads it again.
    await this.#api.patch(`${this.#cluster}/status`, { metadata: { resourceVersion }, status }).catch(() => {});
  }

  async #delete(resource: string, { items }: Listed, id: string): Promise<boolean> {
    const found = items.find(({ metadata }) => metadata.labels?.[labels.id] === id);
    if (found === undefined || found.metadata.deletionTimestamp !== undefined) return false;
    await this.#api.delete(`${this.#core(resource)}/${found.metadata.name}`).catch(() => {});
    return true;
  }

  #metadata(id: string, { metadata }: ClusterObject, name: string) {
    const { uid } = metadata;
    const owner = { apiVersion, kind: "FoundationDBCluster", name: this.#name, uid, controller: true };
    return {
      name,
      labels: { [labels.cluster]: this.#name, [labels.id]: id },
      ownerReferences: [owner],
    };
  }

  async #makeClaim(id: string, cluster: ClusterObject): Promise<void> {
    await this.#api.post(this.#core("persistentvolumeclaims"), {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: this.#metadata(id, cluster, `${this.#name}-${id}-data`),
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    });
  }

  async #makePod(id: string, cluster: ClusterObject): Promise<void> {
    const name = `${this.#name}-${id}`;
    const annotations = { [ANNOTATIONS.readyAfterMs]: "200", [ANNOTATIONS.goneAfterMs]: "300" };
    await this.#api.post(this.#core("pods"), {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { ...this.#metadata(id, cluster, name), annotations },
      spec: {
        containers: [{ name: "foundationdb", image: "foundationdb:7.3" }],
        volumes: [{ name: "data", persistentVolumeClaim: { claimName: `${name}-data` } }],
      },
    });
  }
}
