/**
 * The whole I/O surface of Sluice: what a function may ask of the API server, and of time. It exports `resources.ts` and
 * `objects.ts`, the types of objects, because a caller needs all of it.
 */
import type { Clock } from "../clock/clock.ts";
import type { ObjectTypes } from "./objects.ts";
import type { AnsweredObject, ObjectKey, Resource, ServedKind } from "./resources.ts";

export type * from "./objects.ts";
export type * from "./resources.ts";
export { apiVersionOf, groupOf, isClusterScoped, isKnown, resources } from "./resources.ts";

export interface ListQuery {
  /** All namespaces when absent. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  /** The pods that are bound to this node, and no others. Only pods have one: a list of another type rejects with code 400. */
  readonly nodeName?: string;
  /** The Events of this component, and no others. Only Events have one: a list of another type rejects with code 400. */
  readonly source?: string;
  /** True: the items have their metadata alone, so that a list of large objects costs little. Absent: whole objects. */
  readonly metadataOnly?: boolean;
  /**
   * Accept any state that is at least this new (`resourceVersionMatch=NotOlderThan`), which the API server answers from
   * memory. Absent: a consistent LIST. Never "0" (rule R5): that accepts any state however old, and is refused here.
   */
  readonly notOlderThan?: string;
  /** Rejects with code 413 as soon as there are known to be more objects than this. Absent: any number of them. */
  readonly atMost?: number;
}

export interface ObjectList<T> {
  readonly items: T[];
  /** Where a watch may continue. It also moves with other resources: never use it as `settled-through` (rule R8). */
  readonly resourceVersion: string;
}

export interface WatchQuery {
  readonly namespace?: string;
  readonly labelSelector?: string;
  /** Changes after this resourceVersion are sent. */
  readonly resourceVersion: string;
}

export type WatchEvent<T> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string };

/** Conditions of a deletion. The uid is not optional: nothing is deleted by name alone (rules R9, R13). */
export interface Preconditions {
  readonly uid: string;
  readonly resourceVersion?: string;
}

export interface CallOptions {
  /** Gives the call up: it then rejects, although the server may still carry it out. */
  readonly signal?: AbortSignal;
  /**
   * No attempt of this call, first or repeated, is sent after this moment of {@link Cluster.monotonicMs} (rule R9): it then
   * rejects with code 0. An attempt that is under way is waited for.
   */
  readonly notAfterMs?: number;
  /** True: the call goes over a few separate connections, so that many such calls keep no other call waiting. */
  readonly aside?: boolean;
}

/** A call about one object, or about a part of it that has rights and rules of its own. */
export interface ObjectCallOptions<S extends Subresource | undefined> extends CallOptions {
  /** Absent: the object itself. */
  readonly subresource?: S;
}

/**
 * `scale` is read and written as a `ScaleObject`, whose uid and resourceVersion are the object's own, and conditions of a patch
 * as well; `status` is written as the object that it is a part of.
 */
export type Subresource = "status" | "scale";

export interface DeleteCallOptions extends CallOptions {
  /** Seconds that a pod has to end; absent: as many as it specifies. 0 removes it without waiting for its node. */
  readonly gracePeriodSeconds?: number;
  /** What happens to the objects that it owns; absent: the default of its type, which is `Background` for most. */
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan";
}

/**
 * A cluster and its clocks. Every rejection is a {@link ClusterError}.
 *
 * Implementations: `client.ts` over the real API, the embedded world in `test/fake-cluster`, and whatever a test wraps
 * around either.
 */
export interface Cluster extends Clock {
  get<R extends Resource, S extends "scale" | undefined = undefined>(
    resource: R,
    key: ObjectKey,
    options?: ObjectCallOptions<S>,
  ): Promise<AnsweredObject<R, S>>;
  list<R extends Resource>(resource: R, query: ListQuery, options?: CallOptions): Promise<ObjectList<ObjectTypes[R]>>;
  create<R extends Resource>(
    resource: R,
    namespace: string,
    body: object,
    options?: CallOptions,
  ): Promise<ObjectTypes[R]>;
  /** A JSON merge patch. One that carries `metadata.uid` and `metadata.resourceVersion` is conditional (rule R3). */
  patch<R extends Resource, S extends Subresource | undefined = undefined>(
    resource: R,
    key: ObjectKey,
    body: object,
    options?: ObjectCallOptions<S>,
  ): Promise<AnsweredObject<R, S>>;
  delete(resource: Resource, key: ObjectKey, preconditions: Preconditions, options?: DeleteCallOptions): Promise<void>;
  /**
   * The changes after a revision, in the order of that resource type. Ends without an error when the server closes the
   * watch; continue from the last revision received. Rejects with code 410 when that revision is too old.
   */
  watch<R extends Resource>(
    resource: R,
    query: WatchQuery,
    options?: CallOptions,
  ): AsyncIterable<WatchEvent<ObjectTypes[R]>>;

  /**
   * How the API server serves a kind that users name, in the preferred version of its group, or else in the first that has it.
   * The core group is "". What is found is remembered for five minutes, or for five seconds after an object of it was 404. What
   * is not found is remembered for five seconds, because its CRD may be made later. Callers that ask for one group at the same
   * time share one request.
   *
   * Rejects with a {@link KindNotServedError} where there is no such kind.
   */
  resourceOf(group: string, kind: string, options?: Pick<CallOptions, "signal">): Promise<ServedKind>;

  /**
   * The text of a small file in a container, by `exec`; undefined where it is not there. Rejects with a {@link ClusterError}.
   * Absent: this cluster reads no files.
   */
  readFile?(pod: ObjectKey, container: string, path: string, signal: AbortSignal): Promise<string | undefined>;

  /** The API server's clock in whole milliseconds since the epoch, as exactly as its `Date` header gives it (about a second). */
  serverTimeMs(): number;
  /**
   * The wall clock of this process, in milliseconds since the epoch. It may be wrong, and an operator may set it: it is a second
   * witness beside {@link serverTimeMs}, and no stamp is written by it.
   */
  wallTimeMs(): number;
  /**
   * A clock of this process that never goes back, in milliseconds. The time that the machine has slept through counts, as far as
   * the wall clock tells: what must not happen later than at a moment is measured by it.
   */
  monotonicMs(): number;
  /**
   * How much of {@link monotonicMs} only the wall clock has told, which an operator may have set: what has to have lasted for a
   * time must not rely on it. Absent: none.
   */
  skippedMs?(): number;
  /** Resolves after `ms`, or at once when the signal is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** A cause in `details` of a `Status`. */
export interface StatusCause {
  readonly reason?: string;
  readonly message?: string;
}

/** A call that did not succeed. `code` is the HTTP status; 0 means that no answer came, so that the server may have acted. */
export class ClusterError extends Error {
  readonly code: number;
  readonly reason: string;
  readonly verb: string;
  readonly resource: string;
  /** How long the server asked us to stay away, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** How many tries of the call may have been carried out, this one, which is answered, among them. 1: no earlier one may. */
  readonly attempts: number;
  /** What the answer says besides its message, by the type of the cause. */
  readonly causes: readonly StatusCause[];

  constructor(init: {
    code: number;
    reason: string;
    message: string;
    verb: string;
    resource: string;
    retryAfterMs?: number | undefined;
    attempts?: number;
    causes?: readonly StatusCause[];
  }) {
    super(init.message);
    this.name = "ClusterError";
    this.code = init.code;
    this.reason = init.reason;
    this.verb = init.verb;
    this.resource = init.resource;
    this.retryAfterMs = init.retryAfterMs;
    this.attempts = init.attempts ?? 1;
    this.causes = init.causes ?? [];
  }
}

/** The API server serves no such kind: as a rule its CRD is not installed. It is not the 404 of an object that is gone. */
export class KindNotServedError extends ClusterError {
  constructor(group: string, kind: string) {
    // Users write both, at any length.
    const show = (name: string) => JSON.stringify(name.slice(0, 100));
    const where = group === "" ? "the core group" : `the group ${show(group)}`;
    const remedy = "install its CustomResourceDefinition, or correct the kind or its group";
    const message = `the API server serves no kind ${show(kind)} in ${where}: ${remedy}`;
    super({ code: 404, reason: "KindNotServed", message, verb: "get", resource: kind });
    this.name = "KindNotServedError";
  }
}

/** A list of more objects than may be kept: see {@link ListQuery.atMost}. */
export function tooManyToKeep(resource: Resource, count: number, atMost: number): ClusterError {
  const message = `there are ${count} or more ${resource}, and no more than ${atMost} are kept`;
  return new ClusterError({ code: 413, reason: "TooMany", message, verb: "list", resource });
}

export function hasCode(error: unknown, ...codes: number[]): error is ClusterError {
  return error instanceof ClusterError && codes.includes(error.code);
}

/**
 * True if a later attempt can help: no answer, too many requests, a server fault, a revision that is not there yet. So can one
 * after a 401, because an expired token is renewed, and the server refused nothing about the request itself.
 */
export function isTransient(error: unknown): error is ClusterError {
  return hasCode(error, 0, 401, 408, 429) || (error instanceof ClusterError && error.code >= 500);
}

/** True if the server certainly did nothing: for 429, and for errors that are not transient. */
export function isRefused(error: unknown): error is ClusterError {
  return hasCode(error, 429) || (error instanceof ClusterError && !isTransient(error));
}

/** True for a 403 for want of a right. Admission refusals and namespaces that are ending also answer 403, but lack no right. */
export function isRightMissing(error: unknown): error is ClusterError {
  return hasCode(error, 403) && / cannot \S+ resource /.test(error.message);
}

/** The right that is missing, and the account that lacks it as the API server's message names it. */
export function lackOf({ verb, resource, message }: ClusterError): string {
  return `Sluice lacks the right to ${verb} ${resource}: ${message}`;
}

/** The API server's message. Before that of a 401, which is only `Unauthorized`, stands the cause. */
export function apiMessage({ code, message }: ClusterError): string {
  return code === 401 ? `the API server does not accept Sluice's credentials: ${message}` : message;
}
