/** The definition of a function. The server reads it to enqueue and route, and the manifests are rendered from it. */

import type { AnyEntry } from "../annotations/table.ts";
import type { Guards } from "../base/guards.ts";
import type { Setting } from "../base/settings.ts";
import type { GroupCache } from "../cache/cache.ts";
import type { CertificateSettings } from "../certificates/settings.ts";
import type { Cluster, KnownResource, Subresource } from "../kubernetes/cluster.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import type { Context } from "./context.ts";
import type { Key, WatchedSource, WatchSource } from "./keys.ts";
import type { AnsweringProcess, Status } from "./status.ts";

/** A right that a function needs: rendered into its Role. */
export interface Need {
  readonly group: string;
  readonly resource: string;
  readonly verbs: readonly string[];
  /**
   * Where the right to a namespaced type holds: in every namespace, or in the namespace `default`, which has the Events about
   * cluster-scoped objects. Absent: in the namespace of the process.
   */
  readonly scope?: "every-namespace" | "default";
  /** Of these objects alone, where a verb can be limited to some; absent: of all. */
  readonly names?: readonly string[];
  /** The same of objects that are of no namespace: each is called so, with `-` and the namespace that is served after it. */
  readonly namesOfNamespace?: readonly string[];
  /**
   * Paths of what the function writes into such an object, such as `spec.replicas` or `metadata.finalizers[sluice.dev/a]`. A `*`
   * at the end of a key stands for any rest. Admission policies are rendered from them, which refuse every other change by the
   * account. Each right to make or change objects needs them, but for the right to make Events.
   */
  readonly changes?: readonly string[];
}

/**
 * A list of kinds that the user who installs Sluice makes: of those whose size is mirrored, of owners that ask for labels, or of
 * machines that nodes run on.
 */
export type KindList = "mirrored" | "owners" | "machines";

/**
 * What a function does to objects of kinds that users name: a right that it gets for each kind in one list of the user who
 * installs it, and for no other.
 */
export interface KindNeed {
  readonly list: KindList;
  /** Absent: the object itself. */
  readonly subresource?: Subresource;
  /** Absent: they are in the namespace that is served. */
  readonly scope?: "every-namespace";
  readonly verbs: readonly string[];
  /** As in a {@link Need}. */
  readonly changes?: readonly string[];
  /** API groups to whose kinds in the list the function does not do this; absent: none. */
  readonly exceptGroups?: readonly string[];
}

export interface ReconcileResult {
  /** When to reconcile again without an event; best effort, the sweep is the guarantee. */
  readonly requeueAfterMs: number | undefined;
  /** True: events before then are served by that reconcile, but sweeps are not; absent: each has a reconcile of its own. */
  readonly absorbsEvents?: boolean;
  /** The acts that go on afterwards: the next reconcile need not wait for them, a shutdown must. Resolves to a requeue. */
  readonly pendingActs: Promise<number | undefined> | undefined;
  /** Why the reconcile counts as failed, though nothing broke: see `failingGuards`; absent: it does not. */
  readonly failure?: string;
  /** No StatefulSet is left in the group; absent: one is, or nothing was read. */
  readonly isGone?: boolean;
}

/** A finalizer of ours that a function puts on objects, or leaves there. */
export interface OwnFinalizer {
  readonly name: string;
  /** With the value `remove` the function takes the finalizer off every object, and puts it on none, as before an uninstall. */
  readonly setting: Setting<"keep" | "remove">;
}

/** The fields that the definitions of all functions have, whether an event, a review or a timer starts them. */
export interface Definition {
  readonly name: string;
  readonly concern: string;
  /** Every guard that a verdict or an answer of the function may have, with what it means and what ends it. */
  readonly guards: Guards;
  /**
   * True for a function that runs only where its name is set in `FUNCTION`. It is left out of `all`, of the standard manifests
   * and of the chart, so that its rights are given only to users who ask for it. Absent: it belongs to all of them.
   */
  readonly isOptIn?: true;
  /** The oldest Kubernetes on which it runs, such as `1.32`: a process with it ends on an older one. Absent: it runs on any. */
  readonly leastKubernetes?: `1.${number}`;
  readonly needs: readonly Need[];
  /**
   * More rights, for a part of the function that its user asks for, by the name of that part. Each part is an overlay of its own.
   * Absent: it has no such part.
   */
  readonly optionalNeeds?: Readonly<Record<string, readonly Need[]>>;
  /** Absent: users name no kinds to it. */
  readonly kindNeeds?: readonly KindNeed[];
  readonly reads: readonly AnyEntry[];
  readonly writes: readonly AnyEntry[];
  /** The settings that are its own, by field; absent: it has none. */
  readonly settings?: Readonly<Record<string, Setting<unknown>>>;
  /** Which finalizers of ours are on objects while it is served; absent: it needs none. */
  readonly finalizers?: readonly OwnFinalizer[];
}

/** True for a function that every installation has unless its user chooses. */
export function isStandard({ isOptIn }: Pick<Definition, "isOptIn">): boolean {
  return isOptIn !== true;
}

/** Reconciles between the sweeps, of the few keys for which a promise with a short time may be due. */
export interface Schedule<K extends Key = Key> {
  /** A divisor of 60, because a PingSource ticks by the second hand of a clock. */
  readonly everySeconds: number;
  /** These keys of a namespace, or of all that are served. It must be cheap: ledgers, and no pods. Throws ClusterError. */
  listDue(context: Context, namespace: string | undefined): Promise<readonly K[]>;
}

/** A function that events and sweeps trigger for one of its keys. */
export interface FunctionDefinition<K extends Key = Key> extends Definition {
  /** What its keys are: groups, or objects of one type. */
  readonly keyedBy: "groups" | KnownResource;
  /** The types of objects whose changes trigger it, one line for each type. */
  readonly watches: readonly WatchSource<K>[];
  /**
   * Every key of a namespace, or of all that are served: how a sweep finds its work. Functions that have the same `listKeys`
   * share the lists of a sweep. For keys that are of no namespace it is called once. Throws ClusterError.
   */
  listKeys(context: Context, namespace: string | undefined): Promise<readonly K[]>;
  /** For a promise with a time below the five minutes of a sweep, of which no event need tell; absent: it makes none. */
  readonly schedule?: Schedule<K>;
  /** True where a reconcile only sees whether a group is there, which is worth no watch; absent: it decides about the group. */
  readonly isGlance?: boolean;
  /** False for a function that also acts while rollout-operator runs; absent: it stands by. */
  readonly standsBy?: false;
  /** True where a reconcile of a group is what rollout-operator's users know as one, and alert on. */
  readonly isReconcile?: boolean;
  /** One reconcile of one key. Throws ClusterError where trying again later can help. */
  reconcile(context: Context, key: K, trigger: { readonly sweep: boolean }): Promise<ReconcileResult>;
  /** What a sweep does besides enqueuing `keys`, which are all there are. Throws ClusterError. */
  sweep?(context: Context, keys: readonly K[]): Promise<void>;
}

/** The `listKeys` of all functions whose keys are groups. */
export function listGroupKeys({ cache }: Context, namespace?: string): Promise<readonly GroupKey[]> {
  return cache.groups(namespace);
}

/** How a run of a function of cron ended. */
export interface CronOutcome {
  /** `done`, or what is waited for; for counting. */
  readonly guard: string;
  readonly message: string;
  /** When to run again without a trigger; best effort, cron is the guarantee. */
  readonly requeueAfterMs: number;
}

/** A function that cron triggers, for something that belongs to no group. */
export interface CronDefinition extends Definition {
  /** The objects whose changes also trigger it, one line for each type. A run reads everything anew. Absent: cron alone does. */
  readonly watches?: readonly WatchedSource[];
  /** Answers what each trigger runs, never twice at once. A run throws ClusterError where trying again can help. */
  open(
    context: Pick<Context, "cluster" | "reporter" | "mode">,
    certificate: CertificateSettings,
  ): () => Promise<CronOutcome>;
}

/** An eviction that waits for its turn in the memory of a process. */
export interface ParkedEviction {
  readonly key: GroupKey;
  readonly pod: string;
  readonly uid: string;
  /** Among the evictions of its group, from 1. */
  readonly place: number;
  /** By the monotonic clock. */
  readonly sinceMs: number;
  readonly guard: string;
  readonly message: string;
}

/** The certificate that a process presents. */
export interface PresentedCertificate {
  /** The Secret or the file that has it. */
  readonly object: string;
  /** Empty for a file. */
  readonly namespace: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** What a process gives a function that a GET triggers: nothing by which it could write. */
export interface StatusContext {
  readonly cluster: Pick<Cluster, "get" | "list" | "monotonicMs" | "serverTimeMs" | "sleep">;
  /** The groups as watches remember them. */
  readonly cache: Pick<GroupCache, "read">;
  /** The groups that the watches have delivered. Some may have vanished since. */
  groups(): Iterable<GroupKey>;
  /** Only groups of this name are shown; absent: all of them. */
  readonly group?: string;
  /** The guards of each function, by its name. */
  readonly guards: Readonly<Record<string, Guards>>;
  readonly answeredBy: AnsweringProcess;
  /** Why the views are not complete yet; undefined once they are. Absent: they are. */
  viewsTrouble?(): unknown;
  /** By resource: why it cannot be watched, so that the views are complete but late. Absent: everything is watched. */
  refusedWatches?(): ReadonlyMap<string, unknown>;
  /** Absent: the process parks no reviews. */
  parked?(): readonly ParkedEviction[];
  /** Undefined before the first was read. Absent: the process presents none. */
  certificate?(): PresentedCertificate | undefined;
  /** True where a function that suspends or removes volumes is served; absent: false. */
  readonly suspendsVolumes?: boolean;
}

/** A function that a GET triggers. It reads and decides, and writes nothing. */
export interface StatusDefinition extends Definition {
  /**
   * Returns what each GET calls. It resolves within three seconds, also while the API server is away, and never rejects.
   * Undefined: nothing has been read yet. GETs of the same second get the same status.
   */
  open(context: StatusContext): () => Promise<Status | undefined>;
}
