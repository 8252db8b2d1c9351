/**
 * A group whose pods are told before they leave: processes that answer reviews of its sizes, and one that ends unfinished
 * downscales.
 */
import { prepareDownscale } from "../../../../functions/prepare-downscale/function.ts";
import { releasePrepared } from "../../../../functions/release-prepared/function.ts";
import type {
  AdmissionAnswer,
  AdmissionHandler,
  AdmissionRequest,
  Denied,
} from "../../../../functions/shared/admission/definition.ts";
import { openHandler } from "../../../../functions/shared/admission/shadow.ts";
import { createListReader } from "../../../../functions/shared/cache/listing.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { type Claim, makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { createWorldPodHttp, type PodReply } from "../../../fake-cluster/pod-http.ts";
import type { GroupOptions } from "../../../fake-cluster/world.ts";
import { createWorldCluster } from "../../../fake-cluster/world-cluster.ts";
import { explaining } from "../../../support/explained.ts";
import {
  type Call,
  counting,
  Harness,
  type Interference,
  key,
  namespace,
  played,
} from "../../shared/reconcile/harness.ts";

export const prefix = "grafana.com/";
export const settings = {
  [`${prefix}prepare-downscale-http-path`]: "ingester/prepare-shutdown",
  [`${prefix}prepare-downscale-http-port`]: "80",
};

/** The API server waits ten seconds, of which the server of reviews keeps a tenth for itself. */
const patienceMs = 9_000;

export interface Received {
  readonly method: string;
  readonly pod: string;
  readonly url: string;
}

/** The fake cluster, and the calls that its pods got. */
export class Downscales {
  readonly harness: Harness;
  readonly received: Received[] = [];
  /** Uids of the pods that were told that they leave. */
  readonly prepared = new Set<string>();
  /** Outcome of a call to a pod. With undefined the pod does as it is told. */
  reply: (pod: string, method: string) => PodReply | undefined = () => undefined;

  constructor(group: Partial<GroupOptions>) {
    this.harness = new Harness({
      replicas: 5,
      ...group,
      labels: { "rollout-group": key.group, [`${prefix}prepare-downscale`]: "true", ...group.labels },
    });
    for (const { metadata } of this.harness.world.store.list("statefulsets").items)
      this.harness.world.annotate({ namespace, name: metadata.name }, settings);
  }

  process(changes: (cluster: Cluster) => Partial<Context> = () => ({})): Process {
    return new Process(this, changes);
  }

  /** The calls that pods got, in order: `POST group-a-4`. */
  get requests(): string[] {
    return this.received.map(({ method, pod }) => `${method} ${pod}`);
  }

  get claims(): readonly Claim[] {
    return this.harness.ledger.claims;
  }

  get claimed(): string[] {
    return this.claims.map((claim) => (claim.isKnown ? `${claim.zone} ${claim.phase}` : claim.kind));
  }

  annotate(name: string, annotations: Readonly<Record<string, string | null>>): void {
    this.harness.world.annotate({ namespace, name }, annotations);
  }

  label(name: string, labels: Readonly<Record<string, string | null>>): void {
    this.harness.world.store.patch("statefulsets", { namespace, name }, { metadata: { labels } });
  }

  /** Another StatefulSet gets the name, with everything of the old one but its uid and the given changes. */
  replace(name: string, spec: object = {}): void {
    const { store } = this.harness.world;
    const old = store.get("statefulsets", { namespace, name });
    store.delete("statefulsets", { namespace, name }, {});
    const { annotations, labels } = old.metadata;
    const made = { ...old, metadata: { name, annotations, labels }, spec: { ...old.spec, ...spec } };
    store.create("statefulsets", namespace, made as never);
  }

  scale(name: string, replicas: number): void {
    this.harness.world.scale({ namespace, name }, replicas);
  }

  replicasOf(name: string): number {
    return this.harness.world.store.get("statefulsets", { namespace, name }).spec.replicas;
  }

  podHttp(cluster: Cluster) {
    return createWorldPodHttp({
      world: this.harness.world,
      clock: cluster,
      answer: ({ metadata: { name, uid } }, { method, origin, path }) => {
        this.received.push({ method, pod: name, url: `${origin}${path}` });
        const reply = this.reply(name, method);
        if (reply !== undefined) return reply;
        if (method === "POST") this.prepared.add(uid);
        else this.prepared.delete(uid);
        return { status: 204 };
      },
    });
  }
}

/** A process. A test may kill it, after which none of its code runs. */
export class Process {
  readonly calls: Call[] = [];
  interfere: Interference = () => {};
  readonly cluster: Cluster;
  readonly context: Context;
  readonly handler: AdmissionHandler;
  readonly #world: Downscales;

  constructor(world: Downscales, changes: (cluster: Cluster) => Partial<Context>) {
    this.#world = world;
    const { harness } = world;
    this.cluster = counting(createWorldCluster(harness.world), this.calls, () => this.interfere);
    this.context = {
      ...harness.context,
      cluster: this.cluster,
      cache: createListReader(this.cluster, undefined),
      memoryOf: createMemory(),
      pods: world.podHttp(this.cluster),
      ...changes(this.cluster),
    };
    this.handler = explaining(prepareDownscale.name, openHandler(prepareDownscale, this.context));
  }

  /** A review of the StatefulSet itself, as the server of reviews passes it to the function. */
  request(name: string, to: number, changes: Partial<AdmissionRequest> = {}): AdmissionRequest {
    const old = this.#world.harness.world.store.get("statefulsets", { namespace, name });
    return {
      uid: "review",
      operation: "UPDATE",
      resource: { group: "apps", version: "v1", resource: "statefulsets" },
      subresource: "",
      user: "",
      namespace,
      name,
      dryRun: false,
      object: { ...old, spec: { ...old.spec, replicas: to } },
      oldObject: old,
      path: "/admission/prepare-downscale",
      deadlineMs: this.cluster.monotonicMs() + patienceMs,
      ...changes,
    };
  }

  review(name: string, to: number, changes: Partial<AdmissionRequest> = {}): Promise<AdmissionAnswer> {
    return played(this.#world.harness.timeline, this.handler.review(this.request(name, to, changes)));
  }

  /** A review of the same change at the scale subresource. */
  reviewScale(name: string, to: number, changes: Partial<AdmissionRequest> = {}): Promise<AdmissionAnswer> {
    const scale = (replicas: number) => ({
      apiVersion: "autoscaling/v1",
      kind: "Scale",
      metadata: { name },
      spec: { replicas },
    });
    const from = this.#world.replicasOf(name);
    return this.review(name, to, { subresource: "scale", object: scale(to), oldObject: scale(from), ...changes });
  }

  async guard(name: string, to: number, changes: Partial<AdmissionRequest> = {}): Promise<string> {
    return (await this.review(name, to, changes)).guard;
  }

  async sweep(on = key): Promise<string | undefined> {
    const { harness } = this.#world;
    harness.verdicts.length = 0;
    await played(harness.timeline, releasePrepared.reconcile(this.context, on, { sweep: true }));
    return harness.guard;
  }

  writes(): string[] {
    const text = this.calls.map(({ verb, resource }) => `${verb} ${resource}`);
    return text.filter((word) => !/^(get|list|watch) /.test(word));
  }
}

/** A healthy group, whose ledger is old enough (rule R4). */
export async function preparedGroup(group: Partial<GroupOptions> = {}): Promise<Downscales> {
  const world = new Downscales(group);
  const { harness } = world;
  await harness.run(true);
  await harness.goOn(60_000);
  await harness.run();
  await harness.goOn(6_000);
  harness.forget();
  return world;
}

export function denied(answer: AdmissionAnswer): Denied {
  if (answer.allowed) throw new Error(`allowed: ${answer.guard}`);
  return answer;
}

/** A claim of a function that tells pods in its own way. */
export function foreignClaim(zone: string, uid: string, changes: Partial<Parameters<typeof makeClaim>[0]> = {}) {
  return makeClaim({
    id: "other-1",
    kind: "scale-down",
    zone,
    members: [{ first: 4, last: 4 }],
    uids: { [zone]: uid },
    by: "another-function",
    stampMs: 0,
    phase: "confirmed",
    terms: "asked",
    ...changes,
  });
}
