/** Watches the pods and StatefulSets of one namespace independently of Sluice, and misses nothing. */
import { setTimeout as delay } from "node:timers/promises";
import { Api, type ApiAccess, ApiError, eventually } from "../controlplane/api.ts";
import { linesOf } from "../controlplane/lines.ts";
import {
  checkHistory,
  type Promised,
  type SeenPod,
  type SeenStatefulSet,
  type Sighting,
  type Taking,
  type Verdict,
} from "./history.ts";

interface RawMetadata {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly { readonly kind: string; readonly name: string }[];
}

interface RawStatefulSet {
  readonly metadata: RawMetadata;
  readonly spec: {
    readonly replicas: number;
    readonly minReadySeconds?: number;
    readonly ordinals?: { readonly start?: number };
  };
  readonly status?: { readonly updateRevision?: string };
}

interface RawPod {
  readonly metadata: RawMetadata;
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly lastTransitionTime?: string;
    }[];
  };
}

type Raw = RawStatefulSet & RawPod;

interface Stream {
  readonly path: string;
  readonly see: (object: Raw) => SeenStatefulSet | SeenPod | undefined;
  /** The current objects, by uid. */
  readonly objects: Map<string, Raw>;
  /** The revision up to which the API server's history is known. */
  revision: number;
}

/** Receives each change as it comes. */
export type Listener = (kind: "Pod" | "StatefulSet", type: Sighting["type"], name: string) => void;

export class Observer {
  readonly #api: Api;
  readonly #promised: Promised | undefined;
  readonly #streams: readonly Stream[];
  readonly #sightings: Sighting[] = [];
  readonly #listeners = new Set<Listener>();
  #closed = false;
  #gaps = 0;
  #failure: unknown;

  private constructor(api: Api, namespace: string, promised: Promised | undefined) {
    this.#api = api;
    this.#promised = promised;
    const stream = (path: string, see: Stream["see"]): Stream => ({ path, see, objects: new Map(), revision: 0 });
    this.#streams = [
      stream(`/apis/apps/v1/namespaces/${namespace}/statefulsets`, seeStatefulSet),
      stream(`/api/v1/namespaces/${namespace}/pods`, seePod),
    ];
  }

  /** Resolves when it watches. @param promised what a budget that governs all pods of the namespace promises */
  static async start(access: ApiAccess, namespace: string, promised?: Promised): Promise<Observer> {
    const api = await Api.open(access, { userAgent: "sluice-test-observer", connections: 4 });
    const observer = new Observer(api, namespace, promised);
    for (const stream of observer.#streams) {
      await observer.#begin(stream);
      observer.#follow(stream).catch((error: unknown) => {
        observer.#failure ??= error;
      });
    }
    return observer;
  }

  /** The Ready pods that were deleted so far, in the order in which the observer learnt of it. */
  get takings(): readonly Taking[] {
    return checkHistory(this.#sightings, this.#promised).takings;
  }

  /** How often its watch broke, and the gap was read revision by revision. */
  get gaps(): number {
    return this.#gaps;
  }

  /** Calls the listener for each change from now on. */
  listen(listener: Listener): void {
    this.#listeners.add(listener);
  }

  /** Checks everything up to now. Throws if anything was missed. */
  async verdict(): Promise<Verdict> {
    await eventually("the observer caught up", 30_000, async () => {
      if (this.#failure !== undefined) throw this.#failure;
      for (const { path, objects } of this.#streams) {
        const { items } = await this.#api.get<{ items: Raw[] }>(path);
        const same = ({ metadata: { uid, resourceVersion } }: Raw) =>
          objects.get(uid)?.metadata.resourceVersion === resourceVersion;
        if (items.length !== objects.size || !items.every(same)) return undefined;
      }
      return true;
    });
    return checkHistory(this.#sightings, this.#promised);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#api.close();
  }

  async #begin(stream: Stream): Promise<void> {
    const list = await this.#api.get<{ metadata: { resourceVersion: string }; items: Raw[] }>(stream.path);
    for (const object of list.items) this.#take(stream, "ADDED", object, Number(object.metadata.resourceVersion));
    stream.revision = Number(list.metadata.resourceVersion);
  }

  async #follow(stream: Stream): Promise<void> {
    let behind = false;
    while (!this.#closed) {
      try {
        if (behind) await this.#fillGap(stream);
        behind = false;
        await this.#watch(stream);
      } catch (error) {
        const forgotten = error instanceof ApiError && error.status === 410;
        if (this.#closed) return;
        if (forgotten && behind) throw error;
        behind ||= forgotten;
        if (!forgotten) await delay(20);
      }
    }
  }

  async #watch(stream: Stream): Promise<void> {
    const path = `${stream.path}?watch=true&allowWatchBookmarks=true&resourceVersion=${stream.revision}`;
    const answer = await this.#api.send("GET", path);
    if (answer.statusCode !== 200) {
      throw new ApiError("GET", path, answer.statusCode, await answer.body.text());
    }
    for await (const line of linesOf(answer.body)) {
      const { type, object } = JSON.parse(line) as { type: Sighting["type"] | "BOOKMARK" | "ERROR"; object: Raw };
      if (type === "ERROR") throw new ApiError("GET", path, (object as unknown as { code: number }).code, object);
      if (type !== "BOOKMARK") this.#take(stream, type, object, Number(object.metadata.resourceVersion));
      stream.revision = Number(object.metadata.resourceVersion);
    }
  }

  /**
   * An API server that has just started remembers no earlier changes, but etcd does. Each missed revision is listed, so that
   * nothing that happened while the server was down stays unseen.
   */
  async #fillGap(stream: Stream): Promise<void> {
    const now = await this.#api.get<{ metadata: { resourceVersion: string } }>(`${stream.path}?limit=1`);
    const end = Number(now.metadata.resourceVersion);
    this.#gaps++;
    while (stream.revision < end) {
      const revision = stream.revision + 1;
      const list = await this.#api.get<{ items: Raw[] }>(
        `${stream.path}?resourceVersion=${revision}&resourceVersionMatch=Exact`,
      );
      const uids = new Set(list.items.map(({ metadata }) => metadata.uid));
      for (const object of [...stream.objects.values()]) {
        if (!uids.has(object.metadata.uid)) this.#take(stream, "DELETED", object, revision);
      }
      for (const object of list.items) {
        const known = stream.objects.get(object.metadata.uid);
        if (known?.metadata.resourceVersion === object.metadata.resourceVersion) continue;
        this.#take(stream, known === undefined ? "ADDED" : "MODIFIED", object, revision);
      }
      stream.revision = revision;
    }
  }

  #take(stream: Stream, type: Sighting["type"], object: Raw, revision: number): void {
    if (type === "DELETED") stream.objects.delete(object.metadata.uid);
    else stream.objects.set(object.metadata.uid, object);
    const seen = stream.see(object);
    if (seen === undefined) return;
    this.#sightings.push({ revision, atMs: Date.now(), type, object: seen });
    const kind = seen.kind === "pod" ? "Pod" : "StatefulSet";
    for (const listener of this.#listeners) listener(kind, type, object.metadata.name);
  }
}

function seeStatefulSet({ metadata, spec, status }: Raw): SeenStatefulSet {
  const budget = metadata.annotations?.["rollout-max-unavailable"] ?? "";
  return {
    kind: "statefulset",
    name: metadata.name,
    start: spec.ordinals?.start ?? 0,
    replicas: spec.replicas,
    // Tests write plain numbers; any other text counts as one.
    maxUnavailable: /^[1-9]\d*$/.test(budget) ? Number(budget) : 1,
    minReadySeconds: spec.minReadySeconds ?? 0,
    updateRevision: status?.updateRevision,
    deleting: metadata.deletionTimestamp !== undefined,
  };
}

function seePod({ metadata, status }: Raw): SeenPod | undefined {
  const owner = metadata.ownerReferences?.find(({ kind }) => kind === "StatefulSet");
  if (owner === undefined) return undefined;
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  return {
    kind: "pod",
    name: metadata.name,
    uid: metadata.uid,
    zone: owner.name,
    ordinal: Number(metadata.name.slice(owner.name.length + 1)),
    ready: ready?.status === "True",
    readySinceMs: Date.parse(ready?.lastTransitionTime ?? ""),
    terminating: metadata.deletionTimestamp !== undefined,
    evicted: status?.conditions?.some(({ reason }) => reason === "EvictionByEvictionAPI") ?? false,
    revision: metadata.labels?.["controller-revision-hash"],
  };
}
