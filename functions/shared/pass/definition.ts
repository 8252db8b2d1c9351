/** What a function is, for the doors that wake it and for the manifests that are rendered from it. */

import type { PodHttp } from "../http/pod-http.ts";
import type { Cluster, KnownResource, Subresource } from "../kubernetes/cluster.ts";
import type { Registration } from "../kubernetes/types/registration.ts";
import type { Protocol } from "../ledger/protocol.ts";
import type { Ledger, Refusal, Reservation } from "../ledger/reservation.ts";
import { BoundedMap, BoundedSet } from "../objects/bounded-map.ts";
import type { CertificateSettings } from "../objects/certificates.ts";
import type { Setting } from "../objects/settings.ts";
import type { GroupKey } from "../objects/statefulsets.ts";
import type { AnyEntry } from "../objects/vocabulary.ts";
import { type Key, pathOf, type Waking, type WokenBy } from "../views/keys.ts";
import type { LookUps } from "../views/look-ups.ts";
import type { Views } from "../views/view.ts";
import type { Reporter } from "./reporter.ts";

/** A right that a function needs: rendered into its Role. */
export interface Need {
  readonly group: string;
  readonly resource: string;
  readonly verbs: readonly string[];
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
 * What a function does to objects of kinds that users name: a right that it gets for each kind that whoever installs it lists,
 * and for no other. They are in the namespace that is served.
 */
export interface KindNeed {
  /** Absent: the object itself. */
  readonly subresource?: Subresource;
  readonly verbs: readonly string[];
  /** As in a {@link Need}. */
  readonly changes?: readonly string[];
}

/**
 * A group's ledger as one process knows it: one copy for all its functions, or each write of one would make the copies of the
 * others stale, and their next write would only be a conflict.
 */
export interface LedgerCopy {
  /** As our own last write left it, or as last read. */
  ledger: Ledger | undefined;
  /** Whose write or read that was. */
  from: GroupMemory | undefined;
  /** When its answer came, by the monotonic clock. */
  atMs: number;
}

/** What one function remembers of a group, or of another key, between passes. Losing it costs requests, never safety. */
export interface GroupMemory {
  /** To be read and changed through `ledger-access.ts`. */
  readonly copy: LedgerCopy;
  /**
   * When a ledger that somebody else may have written was last taken over, by the monotonic clock. Another function of this
   * process is somebody else: what it decided by may be newer than what this one has read of StatefulSets (rule R5).
   */
  ledgerReadMs: number;
  /** When this function last wrote it, by the monotonic clock. A storm of reviews beside it must not keep a verdict untold. */
  ledgerWrittenMs: number;
  /** How a write of it was refused for good, and until when no other is tried, by the monotonic clock. */
  ledgerRefused?: { readonly error: Error; readonly untilMs: number } | undefined;
  /** The verdict that holds now, whether written to the ledger or not. */
  holding: { readonly guard: string; readonly zone: string; readonly sinceMs: number } | undefined;
  readonly refusals: Map<string, Refusal>;
  /** Reservations whose only attempt the API server refused, by pod uid: the next write takes them out. */
  readonly refusedOnce: Map<string, Reservation>;
  /** Since when this process has known each reservation as it stands, by pod uid, function and stamp, by the monotonic clock. */
  readonly knownSince: Map<string, number>;
  /** Since when this process has known zones that have joined, by name and uid, by the monotonic clock. */
  readonly joinedSince: Map<string, number>;
  /** Identities of the Events that this process has sent. */
  readonly announced: Set<string>;
}

export interface Context {
  readonly cluster: Cluster;
  readonly views: Views;
  readonly protocol: Protocol;
  readonly reporter: Reporter;
  /** `shadow` decides and reports, and writes nothing, not even to the ledger (rule R16). */
  readonly mode: "act" | "shadow";
  /** The namespaces that this process serves; all of them when undefined. */
  readonly namespaces: readonly string[] | undefined;
  /** Where reviews read what memory does not have, at a pace; absent: from `cluster`. */
  readonly lookUps?: LookUps;
  /** The settings of this process, by field, for `valuesOf`; absent: nobody set any. */
  readonly settings?: Readonly<Record<string, unknown>>;
  /** HTTP to pods; absent in a process none of whose functions calls any. */
  readonly pods?: PodHttp;
  memoryOf(key: Key): GroupMemory;
}

export interface Outcome {
  /** When to look again without an event; best effort, the sweep is the guarantee. */
  readonly recheckMs: number | undefined;
  /** True: what is heard of the key before then is served by that look, but for a sweep; absent: it has a pass of its own. */
  readonly isRecheckEnough?: boolean;
  /** The acts that go on after the pass: a next pass need not wait for them, a shutdown must. Resolves to a recheck. */
  readonly acting: Promise<number | undefined> | undefined;
  /** Why the pass counts as failed, though nothing broke: see `failingGuards`; absent: it does not. */
  readonly failure?: string;
  /** No StatefulSet is left in the group; absent: one is, or nobody looked. */
  readonly isGone?: boolean;
}

/** What every function says of itself, whichever door wakes it. */
interface Definition {
  readonly name: string;
  readonly concern: string;
  readonly needs: readonly Need[];
  /** Absent: users name no kinds to it. */
  readonly kindNeeds?: readonly KindNeed[];
  readonly reads: readonly AnyEntry[];
  readonly writes: readonly AnyEntry[];
  /** The settings that are its own, by field; absent: it has none. */
  readonly settings?: Readonly<Record<string, Setting<unknown>>>;
}

/** Short looks between the sweeps, each at the few keys for which a promise with a short time may be due. */
export interface Schedule<K extends Key = Key> {
  /** A divisor of 60, because a PingSource ticks by the second hand of a clock. */
  readonly everySeconds: number;
  /** These keys of a namespace, or of all that are served. It must be cheap: ledgers, and no pods. Throws ClusterError. */
  listDue(context: Context, namespace: string | undefined): Promise<readonly K[]>;
}

/** A function that events and sweeps wake for one of its keys. */
export interface FunctionDefinition<K extends Key = Key> extends Definition {
  /** What its keys are: groups, or objects of one type. */
  readonly keyedBy: "groups" | KnownResource;
  /** The types of objects whose changes wake it, one line for each type. */
  readonly wokenBy: readonly WokenBy<K>[];
  /**
   * Every key of a namespace, or of all that are served: how a sweep finds its work. Functions that have the same `listKeys`
   * share the lists of a sweep. For keys that are of no namespace it is called once. Throws ClusterError.
   */
  listKeys(context: Context, namespace: string | undefined): Promise<readonly K[]>;
  /** For a promise with a time below the five minutes of a sweep, of which no event need tell; absent: it makes none. */
  readonly schedule?: Schedule<K>;
  /** True where a pass only looks whether a group is there, which is not worth a watch; absent: it decides about the group. */
  readonly isGlance?: boolean;
  /** True where a pass over a group is what rollout-operator's users know as a reconcile, and alert on. */
  readonly isReconcile?: boolean;
  /** One pass over one key. Throws ClusterError where trying again later can help. */
  run(context: Context, key: K, wake: { readonly sweep: boolean }): Promise<Outcome>;
  /** What a sweep does besides waking `keys`, which are all there are. Throws ClusterError. */
  sweep?(context: Context, keys: readonly K[]): Promise<void>;
}

/** The `listKeys` of all functions whose keys are groups. */
export function listGroupKeys({ views }: Context, namespace?: string): Promise<readonly GroupKey[]> {
  return views.groups(namespace);
}

/** What the API server asks before it does something to an object. Whoever posts it may write anything: only types are sure. */
export interface AdmissionRequest {
  readonly uid: string;
  /** `CREATE`, `UPDATE`, `DELETE` or `CONNECT`; empty when it was not said. */
  readonly operation: string;
  /** The type of the object: its fields are empty where the review does not say it. */
  readonly resource: { readonly group: string; readonly version: string; readonly resource: string };
  /** Such as `eviction`; empty for the object itself. */
  readonly subresource: string;
  /** The name of whoever asked the API server; empty where the review does not say it. */
  readonly user: string;
  readonly namespace: string;
  readonly name: string;
  /** Said of the request, or in an Eviction. */
  readonly dryRun: boolean;
  readonly object: unknown;
  readonly oldObject: unknown;
  /** At which of the function's paths it was posted. */
  readonly path: string;
  /** No answer is of use after this moment of the monotonic clock. */
  readonly deadlineMs: number;
  /** Aborted when whoever asked has gone, and hears no answer any more; absent: nobody tells. */
  readonly signal?: AbortSignal | undefined;
}

export interface Allowed {
  readonly allowed: true;
  /** `allowed`, or a stable kebab-case name for why nothing was to be judged; for counting. */
  readonly guard: string;
  /** What kubectl shows all the same. */
  readonly warnings: readonly string[];
  /** The StatefulSet whose pod it is about, where it is about one. */
  readonly zone?: string;
  /** JSON Patch operations on the object, for a mutating webhook alone; absent or empty: it stays as it is. */
  readonly patch?: readonly object[];
  /** It rests on a reservation that was written for it. */
  readonly reserved?: true;
  /** In shadow mode: what there would be without it, a refusal, or a reservation in the ledger. Absent: the same. */
  readonly otherwise?: Denied | "reserved";
}

export interface Denied {
  readonly allowed: false;
  /** A stable kebab-case name, for counting. */
  readonly guard: string;
  /** The HTTP status that the API server's client gets, and its reason. */
  readonly code: number;
  readonly reason: string;
  /** The type of the one cause in the status, such as `DisruptionBudget`; empty for none. */
  readonly cause: string;
  /** Which field of the object is to be changed; empty when it is none. */
  readonly field: string;
  readonly sentence: string;
  /** The StatefulSet whose pod it is about, where it is about one. */
  readonly zone?: string;
  /** Time alone may cure it within seconds, and not sooner than in so many milliseconds; absent: nobody waits for that. */
  readonly curedInMs?: number;
}

export type AdmissionAnswer = Allowed | Denied;

/** Judges the reviews of one process; a dry run without a trace. A review rejects where it breaks: see `whenBroken`. */
export interface Judge {
  review(request: AdmissionRequest): Promise<AdmissionAnswer>;
  /** Answers whoever waits, and has nobody wait any more: the process is ending. Absent: nobody ever waits. */
  stop?(): void;
}

/** A function that answers admission reviews. */
export interface AdmissionDefinition extends Definition {
  /** Where reviews are posted. */
  readonly paths: readonly string[];
  readonly registration: Registration;
  /** The largest review that is read, in bytes. */
  readonly bodyLimitBytes: number;
  /** What the function reads of an object, where that is less than all of it: nothing else is kept while a review waits. */
  keepOf?(object: unknown): unknown;
  /** Whether an object goes through, with a warning, when the function breaks; where nobody answers: see `failurePolicy`. */
  readonly whenBroken: "open" | "closed";
  /** True for one that judges by pods and StatefulSets, so that a process that serves it keeps views of them. */
  readonly readsViews: boolean;
  /** What rollout-operator's users know an answer as in `rollout_operator_zpdb_eviction_requests_total`, by guard. */
  readonly peerReasons?: Readonly<Record<string, string>>;
  open(context: Context): Judge;
}

/** How a run of a function that cron wakes ended. */
export interface CronOutcome {
  /** `done`, or what is waited for; for counting. */
  readonly guard: string;
  readonly sentence: string;
  /** When to look again without being woken; best effort, cron is the guarantee. */
  readonly recheckMs: number;
}

/** A function that cron wakes, for something that belongs to no group. */
export interface CronDefinition extends Definition {
  /** The objects whose changes also wake it, one line for each type. A run reads everything anew. Absent: cron alone wakes it. */
  readonly wokenBy?: readonly Waking[];
  /** Answers what is run whenever it is woken, never twice at once. A run throws ClusterError where trying again can help. */
  open(
    context: Pick<Context, "cluster" | "reporter" | "mode">,
    certificate: CertificateSettings,
  ): () => Promise<CronOutcome>;
}

/**
 * Of one group: what an API server refused, of which a ledger takes fewer, and what is forgotten is tried once more; and
 * identities of Events, of which one that is forgotten is sent again, and counts up the Event that there is.
 */
const remembered = 1_000;

/** The copies of ledgers that the functions of one process share. They must share their connection and their views as well. */
export function createLedgerCopies(capacity = 10_000): (key: Key) => LedgerCopy {
  return remembering(capacity, () => ({ ledger: undefined, from: undefined, atMs: Number.NEGATIVE_INFINITY }));
}

/** A memory that forgets the key that was least recently asked for once it holds `capacity` of them. */
export function createMemory(
  copyOf: (key: Key) => LedgerCopy = createLedgerCopies(),
  capacity = 10_000,
): (key: Key) => GroupMemory {
  return remembering(capacity, (key) => ({
    copy: copyOf(key),
    ledgerReadMs: Number.NEGATIVE_INFINITY,
    ledgerWrittenMs: Number.NEGATIVE_INFINITY,
    holding: undefined,
    refusals: new BoundedMap(remembered),
    refusedOnce: new BoundedMap(remembered),
    knownSince: new Map(),
    joinedSince: new Map(),
    announced: new BoundedSet(remembered),
  }));
}

function remembering<Known>(capacity: number, create: (key: Key) => Known): (key: Key) => Known {
  const keys = new BoundedMap<string, Known>(capacity);
  // A pass asks many times for one key, whose place is then the last already.
  let last: { readonly name: string; readonly known: Known } | undefined;
  return (key) => {
    const name = pathOf(key);
    if (last?.name === name) return last.known;
    const known = keys.get(name) ?? create(key);
    keys.delete(name);
    keys.set(name, known);
    last = { name, known };
    return known;
  };
}
