/** Watches the pods and StatefulSets of one group independently, straight from the API server, and forgets nothing. */
import { Api, type ApiAccess, eventually } from "../../controlplane/api.ts";
import { linesOf } from "../../controlplane/lines.ts";
import type { PodSighting, Sighting, StatefulSetSighting } from "./check-history.ts";

interface Raw {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly { readonly controller?: boolean }[];
  };
  readonly spec: { readonly replicas?: number };
  readonly status?: {
    readonly updateRevision?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly reason?: string }[];
  };
}

type Change = Pick<Sighting, "type" | "atMs" | "revision">;
type See = (object: Raw, change: Change) => Sighting | undefined;

export class Witness {
  readonly #api: Api;
  readonly #sightings: Sighting[] = [];
  /** The existing pods, by uid. */
  readonly #pods = new Map<string, PodSighting>();
  readonly #podsPath: string;
  #closed = false;
  #failure: Error | undefined;

  private constructor(api: Api, podsPath: string) {
    this.#api = api;
    this.#podsPath = podsPath;
  }

  /** Resolves when it watches. @param group the value of the label `rollout-group` */
  static async start(access: ApiAccess, namespace: string, group: string): Promise<Witness> {
    const api = await Api.open(access, { userAgent: "sluice-test-witness", connections: 4 });
    const query = `labelSelector=${encodeURIComponent(`rollout-group=${group}`)}`;
    const podsPath = `/api/v1/namespaces/${namespace}/pods?${query}`;
    const witness = new Witness(api, podsPath);
    const paths: [string, See][] = [
      [`/apis/apps/v1/namespaces/${namespace}/statefulsets?${query}`, seeStatefulSet],
      [podsPath, seePod],
    ];
    for (const [path, see] of paths) {
      const revision = await witness.#list(path, see);
      witness.#watch(path, revision, see).catch((error: unknown) => {
        if (!witness.#closed)
          witness.#failure ??= new Error(`the witness lost the thread of ${path}`, { cause: error });
      });
    }
    return witness;
  }

  get pods(): readonly PodSighting[] {
    return [...this.#pods.values()];
  }

  /** Everything up to now, in the order of arrival. Throws if something was missed. */
  async sightings(): Promise<readonly Sighting[]> {
    await eventually("the witness caught up", 30_000, async () => {
      if (this.#failure !== undefined) throw this.#failure;
      const { items } = await this.#api.get<{ items: Raw[] }>(this.#podsPath);
      const isKnown = ({ metadata: { uid, resourceVersion } }: Raw) =>
        this.#pods.get(uid)?.revision === Number(resourceVersion);
      return items.length === this.#pods.size && items.every(isKnown) ? true : undefined;
    });
    return [...this.#sightings];
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#api.close();
  }

  async #list(path: string, see: See): Promise<string> {
    const list = await this.#api.get<{ metadata: { resourceVersion: string }; items: Raw[] }>(path);
    for (const object of list.items) this.#take("ADDED", object, see);
    return list.metadata.resourceVersion;
  }

  async #watch(path: string, revision: string, see: See): Promise<void> {
    const answer = await this.#api.send("GET", `${path}&watch=true&timeoutSeconds=86400&resourceVersion=${revision}`);
    if (answer.statusCode !== 200) throw new Error(`${answer.statusCode} ${await answer.body.text()}`);
    for await (const line of linesOf(answer.body)) {
      const { type, object } = JSON.parse(line) as { type: Sighting["type"] | "ERROR"; object: Raw };
      if (type === "ERROR") throw new Error(JSON.stringify(object));
      this.#take(type, object, see);
    }
    throw new Error("the watch ended");
  }

  #take(type: Sighting["type"], object: Raw, see: See): void {
    const seen = see(object, { type, atMs: Date.now(), revision: Number(object.metadata.resourceVersion) });
    if (seen === undefined) return;
    this.#sightings.push(seen);
    if (seen.kind !== "pod") return;
    if (type === "DELETED") this.#pods.delete(seen.uid);
    else this.#pods.set(seen.uid, seen);
  }
}

function seeStatefulSet({ metadata, spec, status }: Raw, change: Change): StatefulSetSighting {
  return {
    ...change,
    kind: "statefulset",
    name: metadata.name,
    replicas: spec.replicas ?? 1,
    maxUnavailable: Number(metadata.annotations?.["rollout-max-unavailable"] ?? 1),
    updateRevision: status?.updateRevision,
  };
}

/** A witness reads names without the product, whose mistake must not be one here. */
function seePod({ metadata, status }: Raw, change: Change): PodSighting | undefined {
  const [, zone, ordinal] = /^(.+)-(\d+)$/.exec(metadata.name) ?? [];
  if (zone === undefined) return undefined;
  return {
    ...change,
    kind: "pod",
    name: metadata.name,
    zone,
    ordinal: Number(ordinal),
    uid: metadata.uid,
    orphaned: !metadata.ownerReferences?.some(({ controller }) => controller),
    ready: status?.conditions?.some((one) => one.type === "Ready" && one.status === "True") ?? false,
    terminating: metadata.deletionTimestamp !== undefined,
    evicted: status?.conditions?.some(({ reason }) => reason === "EvictionByEvictionAPI") ?? false,
    podRevision: metadata.labels?.["controller-revision-hash"],
  };
}
