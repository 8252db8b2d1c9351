/**
 * Watches owners and pods, and reports in which order they were labelled, taken and let go: by revisions, which all types
 * share.
 */
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, type ApiAccess } from "../controlplane/api.ts";
import { follow } from "../controlplane/follow.ts";

export const finalizer = "sluice.dev/release-prestop";
/** Keeps a released owner, so that the revision of its release can be read. */
export const witnessed = "sluice.dev/test-witness";
const label = "skipPreStopChecks";

interface Seen {
  readonly metadata: Metadata;
}

/** The history of a pod: the revisions and the times at which it was first seen so. */
export interface PodStory {
  readonly name: string;
  readonly madeAt: number;
  labelledAt: number;
  labelledMs: number;
  terminatingAt: number;
  terminatingMs: number;
}

export class Witness {
  readonly #pods = new Map<string, PodStory>();
  readonly #kept = new Set<string>();
  readonly #releases = new Map<string, number>();
  readonly #stopping = new AbortController();
  readonly #api: Api;
  #following: readonly Promise<void>[] = [];

  private constructor(api: Api) {
    this.#api = api;
  }

  /** Watches the objects of a namespace from now on. */
  static async start(access: ApiAccess, namespace: string): Promise<Witness> {
    const api = await Api.open(access, { userAgent: "sluice-test-witness" });
    const witness = new Witness(api);
    const { signal } = witness.#stopping;
    const pods = { path: `/api/v1/namespaces/${namespace}/pods`, known: witness.#pods, gone: () => {} };
    const clusters = `/apis/rabbitmq.com/v1beta1/namespaces/${namespace}/rabbitmqclusters`;
    const owners = { path: clusters, known: witness.#releases, gone: () => {} };
    const followed = await Promise.all([
      follow<Seen>(api, { ...pods, seen: (pod) => witness.#seePod(pod) }, signal),
      follow<Seen>(api, { ...owners, seen: (owner) => witness.#seeOwner(owner) }, signal),
    ]);
    witness.#following = followed.map(({ ended }) => ended);
    return witness;
  }

  /** The pods of a StatefulSet, in the order of their creation. */
  podsOf(statefulSet: string): readonly PodStory[] {
    return [...this.#pods.values()].filter(({ name }) => name.startsWith(`${statefulSet}-`));
  }

  /** True for an owner that has had our finalizer, and has it no more. */
  isReleased(owner: string): boolean {
    return this.#releases.has(owner);
  }

  /** The pods that existed, were not terminating, and had no label when their owner was let go. Empty if M1 holds. */
  unlabelledAtRelease(owner: string, statefulSet: string): readonly string[] {
    const releasedAt = this.#releases.get(owner);
    if (releasedAt === undefined) throw new Error(`${owner} was not let go`);
    const there = this.podsOf(statefulSet).filter(
      ({ madeAt, terminatingAt }) => madeAt < releasedAt && terminatingAt > releasedAt,
    );
    return there.filter(({ labelledAt }) => labelledAt > releasedAt).map(({ name }) => name);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#api.close();
    await Promise.all(this.#following);
  }

  #seePod({ metadata }: Seen): void {
    const { uid, name, resourceVersion, labels, deletionTimestamp } = metadata;
    const [at, ms] = [Number(resourceVersion), Date.now()];
    const never = Number.POSITIVE_INFINITY;
    const story = this.#pods.get(uid) ?? {
      name,
      madeAt: at,
      labelledAt: never,
      labelledMs: never,
      terminatingAt: never,
      terminatingMs: never,
    };
    this.#pods.set(uid, story);
    if (labels?.[label] && story.labelledAt === never) [story.labelledAt, story.labelledMs] = [at, ms];
    if (deletionTimestamp && story.terminatingAt === never) [story.terminatingAt, story.terminatingMs] = [at, ms];
  }

  #seeOwner({ metadata }: Seen): void {
    const { name, finalizers = [], resourceVersion } = metadata;
    if (finalizers.includes(finalizer)) this.#kept.add(name);
    else if (this.#kept.has(name) && !this.#releases.has(name)) this.#releases.set(name, Number(resourceVersion));
  }
}
