import type { Context } from "../contract/context.ts";
import type { Definition, ParkedEviction } from "../contract/definition.ts";

/** What the API server asks before it changes an object. Any client may have sent it: only the types of its fields are sure. */
export interface AdmissionRequest {
  readonly uid: string;
  /** `CREATE`, `UPDATE`, `DELETE` or `CONNECT`; empty if the review does not say it. */
  readonly operation: string;
  /** The type of the object: its fields are empty where the review does not say it. */
  readonly resource: { readonly group: string; readonly version: string; readonly resource: string };
  /** Such as `eviction`; empty for the object itself. */
  readonly subresource: string;
  /** Name of the user that asked the API server; empty where the review does not say it. */
  readonly user: string;
  readonly namespace: string;
  readonly name: string;
  /** True if the request or its Eviction says so. */
  readonly dryRun: boolean;
  readonly object: unknown;
  readonly oldObject: unknown;
  /** The path of the function to which it was posted. */
  readonly path: string;
  /** No answer is of use after this moment of the monotonic clock. */
  readonly deadlineMs: number;
  /** Signal that aborts when the caller has closed its connection; absent where there is no connection. */
  readonly signal?: AbortSignal | undefined;
}

export interface Allowed {
  readonly allowed: true;
  /** `allowed`, or a stable kebab-case name that says why there was nothing to decide; metrics count it. */
  readonly guard: string;
  /** Messages that kubectl shows beside its success. */
  readonly warnings: readonly string[];
  /** The StatefulSet whose pod it is about, where it is about one. */
  readonly zone?: string;
  /** The group whose ledger decided; absent where none did. Metrics count evictions by it. */
  readonly group?: string;
  /** JSON Patch operations on the object, for a mutating webhook alone; absent or empty: the object stays as it is. */
  readonly patch?: readonly object[];
  /** True if a reservation was written for this answer. */
  readonly reserved?: true;
  /** In shadow mode: the refusal, or the reservation, that act mode would give. Absent: there is no difference. */
  readonly otherwise?: Denied | "reserved";
}

export interface Denied {
  readonly allowed: false;
  /** A stable kebab-case name; metrics count it. */
  readonly guard: string;
  /** The HTTP status that the API server's client gets, and its reason. */
  readonly code: number;
  readonly reason: string;
  /** The type of the one cause in the status, such as `DisruptionBudget`; empty for none. */
  readonly cause: string;
  /** The field of the object that its author must change; empty for none. */
  readonly field: string;
  readonly message: string;
  /** The StatefulSet whose pod it is about, where it is about one. */
  readonly zone?: string;
  /** The group of that pod; absent where its group is not known, or was not asked for. Metrics count evictions by it. */
  readonly group?: string;
  /** Least time, in milliseconds, after which time alone may cure the refusal; absent: no review waits for that. */
  readonly curedInMs?: number;
}

export type AdmissionAnswer = Allowed | Denied;

/** Decides about the reviews of one process. A dry run leaves no trace. A review that breaks rejects: see `whenBroken`. */
export interface AdmissionHandler {
  review(request: AdmissionRequest): Promise<AdmissionAnswer>;
  /** Answers the reviews that wait, because the process is ending; no review waits after that. Absent: no review ever waits. */
  stop?(): void;
  /** The reviews of evictions that wait. Absent: no review ever waits. */
  parked?(): readonly ParkedEviction[];
}

/** What the API server asks about: requests of these operations on these resources. */
interface ReviewRule {
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly operations: readonly string[];
  readonly resources: readonly string[];
}

/** The function's own part of a webhook configuration. */
interface Registration {
  /** Only a mutating webhook may change what it reviews. */
  readonly kind: "Mutating" | "Validating";
  /** Name of the webhook, without the namespace that the manifests append. */
  readonly webhook: string;
  /** One of the function's paths. */
  readonly path: string;
  readonly rule: ReviewRule;
  readonly sideEffects: "None" | "NoneOnDryRun";
  /** Whether the API server refuses a request (`Fail`) or allows it (`Ignore`) if it gets no answer in time. */
  readonly failurePolicy: "Fail" | "Ignore";
  readonly timeoutSeconds: number;
  /** CEL expressions; the API server asks nothing about an object for which any of them is false. */
  readonly matchConditions?: readonly { readonly name: string; readonly expression: string }[];
}

/** A function that answers admission reviews. */
export interface AdmissionDefinition extends Definition {
  /** Where reviews are posted. */
  readonly paths: readonly string[];
  readonly registration: Registration;
  /** Rules that it answers on all paths, so that the next version may name them; this version does not. Absent: none. */
  readonly nextRules?: readonly ReviewRule[];
  /** Largest size of a review, in bytes. */
  readonly bodyLimitBytes: number;
  /** The part of an object that the function reads: memory keeps nothing else while a review waits. Absent: all of it. */
  keepOf?(object: unknown): unknown;
  /** `open` allows a request with a warning when the function breaks, `closed` refuses it. For no answer see `failurePolicy`. */
  readonly whenBroken: "open" | "closed";
  /** True for a function that refuses in shadow mode as well; absent: shadow mode lets all of it through (rule R16). */
  readonly refusesInShadow?: true;
  /** True for a function that decides by pods and StatefulSets, so that a process that serves it keeps a cache of them. */
  readonly readsViews: boolean;
  /** The reason that `rollout_operator_zpdb_eviction_requests_total` gives for each guard, as in rollout-operator. */
  readonly peerReasons?: Readonly<Record<string, string>>;
  open(context: Context): AdmissionHandler;
}
