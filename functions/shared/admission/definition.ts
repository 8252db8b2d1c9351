import type { Context } from "../contract/context.ts";
import type { Definition } from "../contract/definition.ts";
import type { Registration } from "./registration.ts";

/** What the API server asks before it does something to an object. Its sender may write anything: only types are sure. */
export interface AdmissionRequest {
  readonly uid: string;
  /** `CREATE`, `UPDATE`, `DELETE` or `CONNECT`; empty when it was not said. */
  readonly operation: string;
  /** The type of the object: its fields are empty where the review does not say it. */
  readonly resource: { readonly group: string; readonly version: string; readonly resource: string };
  /** Such as `eviction`; empty for the object itself. */
  readonly subresource: string;
  /** Name of the user that asked the API server; empty where the review does not say it. */
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
  /** Signal that is aborted when the caller has gone and hears no answer any more; absent: no signal tells of that. */
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
  /** Time alone may cure it within seconds, and not sooner than in so many milliseconds; absent: no review waits for that. */
  readonly curedInMs?: number;
}

export type AdmissionAnswer = Allowed | Denied;

/** Judges the reviews of one process; a dry run without a trace. A review rejects where it breaks: see `whenBroken`. */
export interface AdmissionHandler {
  review(request: AdmissionRequest): Promise<AdmissionAnswer>;
  /** Answers the reviews that wait, and has none wait any more: the process is ending. Absent: no review ever waits. */
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
  /** Whether an object goes through, with a warning, when the function breaks; where no answer comes: see `failurePolicy`. */
  readonly whenBroken: "open" | "closed";
  /** True for a function that refuses in shadow mode as well; absent: shadow mode lets all of it through (rule R16). */
  readonly refusesInShadow?: true;
  /** True for one that judges by pods and StatefulSets, so that a process that serves it keeps views of them. */
  readonly readsViews: boolean;
  /** What rollout-operator's users know an answer as in `rollout_operator_zpdb_eviction_requests_total`, by guard. */
  readonly peerReasons?: Readonly<Record<string, string>>;
  open(context: Context): AdmissionHandler;
}
