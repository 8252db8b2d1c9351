/**
 * Questions to the database of a group: any of its pods may answer. An answer that is not the expected one is unknown, with a
 * message that says why; no other answer is guessed from it.
 */

import { type DatabaseName, type ManagerUrl, restartDatabaseSecret } from "../../shared/annotations/restart.ts";
import { BoundedMap } from "../../shared/base/bounded-map.ts";
import { fieldsOf } from "../../shared/base/fields.ts";
import type { Context } from "../../shared/contract/context.ts";
import type { Zone } from "../../shared/groups/zones.ts";
import { CredentialError, describeUntrusted, readPassword, trust } from "../../shared/health/credentials.ts";
import { type PodAnswer, type PodCallOptions, PodHttpError, type PodRequest } from "../../shared/http/pod-http.ts";
import { askedGroupOf } from "../../shared/workloads/group-key.ts";
import type { Pod } from "../../shared/workloads/pods.ts";
import type { StatefulSet } from "../../shared/workloads/statefulsets.ts";
import { databases } from "./table.ts";

/**
 * What a database has answered, or why that is unknown. `isLost`: no pod that was asked has answered anything else than that it
 * knows no master.
 */
export type Answered<T> = { readonly value: T } | { readonly unknown: string; readonly isLost?: boolean };

export interface Question<T> {
  readonly method: "GET" | "PUT" | "POST";
  /** With its query. */
  readonly path: string;
  /** The body of the request, as JSON; absent: none. */
  readonly body?: unknown;
  /** The longest answer, in bytes; 1 MiB unless told. */
  readonly mostBytes?: number;
  /** The value of a JSON document that came with the status 200; undefined for one that is not expected. Pure. */
  read(document: unknown): T | undefined;
}

/** A pod that can be asked. */
export interface DatabaseMember {
  readonly statefulSet: StatefulSet;
  readonly pod: Pod;
}

/** The database of a group, and the pods that can be asked, in their order. */
export interface Database {
  readonly context: Context;
  readonly product: DatabaseName;
  readonly members: readonly DatabaseMember[];
}

/** Asks one member. */
export type AskMember = <T>(question: Question<T>, options?: PodCallOptions) => Promise<Answered<T>>;

/** So many members are asked at most, one after the other, until one gives the expected answer. */
const mostAsked = 3;
/** No question is sent later than so long after the first one, in milliseconds, because acts rest on the answers (rule R9). */
const askWithinMs = 4_500;
/** How long one member may take, in milliseconds, unless told: short, because the next one may answer. */
const answerWithinMs = 2_000;
/**
 * For so long a member that could not answer is asked after the others, in milliseconds. A pod may be ready although its process
 * does not run, and of many members only a few are asked at once.
 */
const passedOverMs = 30_000;
const rememberedFailures = 10_000;

/** When members could not answer, by the uids of their pods and the monotonic clock. Losing it costs a few questions. */
const failures = new WeakMap<object, BoundedMap<string, number>>();

function failuresOver(cluster: object): BoundedMap<string, number> {
  const known = failures.get(cluster) ?? new BoundedMap<string, number>(rememberedFailures);
  failures.set(cluster, known);
  return known;
}

/**
 * The database of a group; undefined where its StatefulSets name none.
 *
 * @param last the uid of a pod that is being stopped or started: it is asked after all others that may answer
 */
export function databaseOf(
  context: Context,
  zones: readonly Pick<Zone<StatefulSet>, "workload" | "pods">[],
  last?: string,
): Database | undefined {
  const named = zones.filter(({ workload }) => workload.restart?.database !== undefined && !workload.deleting);
  const product = named[0]?.workload.restart?.database?.product;
  if (product === undefined) return undefined;
  const members = named.flatMap(({ workload: statefulSet, pods }) =>
    pods.map((pod, place) => ({ statefulSet, pod, place })),
  );
  const standing = members.filter(({ pod }) => !pod.terminating && !pod.finished && !pod.pending);
  const failed = failuresOver(context.cluster);
  const oldestMs = context.cluster.monotonicMs() - passedOverMs;
  // Of those that could not answer the one that was asked first comes first, so that each has its turn.
  const rankOf = ({ pod: { uid, readySinceMs } }: DatabaseMember) => {
    const failedMs = failed.get(uid) ?? Number.NEGATIVE_INFINITY;
    if (failedMs > oldestMs) return 3 + failedMs;
    if (uid === last) return 2;
    return readySinceMs === undefined ? 1 : 0;
  };
  // Those that are asked are of different StatefulSets where they can be: all nodes of one zone may be down at once.
  return {
    context,
    product,
    members: standing.sort((one, other) => rankOf(one) - rankOf(other) || one.place - other.place),
  };
}

/** Asks one question of any member. Throws ClusterError. */
export function askDatabase<T>(
  database: Database,
  question: Question<T>,
  options?: PodCallOptions,
): Promise<Answered<T>> {
  return askMembers(database, (ask) => ask(question, options));
}

/**
 * Asks several questions of one member: of the first one for which `converse` resolves to a value. All of them begin within
 * 4.5 s, or by the `notAfterMs` of their options. Throws ClusterError.
 */
export async function askMembers<T>(
  database: Database,
  converse: (ask: AskMember) => Promise<Answered<T>>,
): Promise<Answered<T>> {
  const { context, members, product } = database;
  const notAfterMs = context.cluster.monotonicMs() + askWithinMs;
  const failed = failuresOver(context.cluster);
  let unknown: string | undefined;
  let isLost = members.length > 0;
  for (const member of members.slice(0, mostAsked)) {
    const answered = await converse((question, options) =>
      askMember(database, member, question, { notAfterMs, timeoutMs: answerWithinMs, ...options }),
    );
    failed.delete(member.pod.uid);
    if ("value" in answered) return answered;
    failed.set(member.pod.uid, context.cluster.monotonicMs());
    unknown ??= answered.unknown;
    isLost &&= answered.isLost === true;
  }
  return { unknown: unknown ?? `no pod of ${databases[product].title} can be asked`, ...(isLost && { isLost }) };
}

/** Tries the addresses of one member until one of them gives any answer. */
async function askMember<T>(
  database: Database,
  member: DatabaseMember,
  question: Question<T>,
  options: PodCallOptions,
): Promise<Answered<T>> {
  const { urls = [] } = member.statefulSet.restart?.database ?? {};
  const silences: Silence[] = [];
  for (const url of urls) {
    const sent = await send(database.context, member, url, question, options);
    if ("answer" in sent) return readAnswer(database, member, question, sent.answer);
    silences.push(sent);
  }
  const unknown = silences.map(({ silence }) => silence).join("; ");
  return { unknown, isLost: silences.every(({ isAsked }) => isAsked === true) };
}

function readAnswer<T>(
  { product }: Database,
  { pod }: DatabaseMember,
  { method, path, read }: Question<T>,
  { status, body }: PodAnswer,
): Answered<T> {
  const asked = `${pod.name}: ${method} ${path.replace(/\?.*$/s, "")}`;
  const document = parseDocument(body);
  if (status !== 200) {
    const isLost = status === 503 && knowsNoMaster(document);
    return { unknown: `${asked} is answered ${status}: ${body.trim().slice(0, 200)}`, ...(isLost && { isLost }) };
  }
  const value = read(document);
  if (value !== undefined) return { value };
  return {
    unknown: `${asked} has an answer that is none of ${databases[product].title}: ${body.trim().slice(0, 100)}`,
  };
}

const masterless: ReadonlySet<unknown> = new Set([
  "cluster_manager_not_discovered_exception",
  "master_not_discovered_exception",
]);

/** A node that waits longer for a master than it may take is silent instead. */
function knowsNoMaster(document: unknown): boolean {
  return masterless.has(fieldsOf(fieldsOf(document)?.error)?.type);
}

function parseDocument(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** `isAsked`: the request was sent as it should be, and nothing that might be the database has answered. */
interface Silence {
  readonly silence: string;
  readonly isAsked?: boolean;
}

/** What a pod has answered at one of its addresses, whatever it is, or why it has not. */
type Sent = { readonly answer: PodAnswer } | Silence;

async function send(
  { cluster, pods }: Context,
  { statefulSet, pod }: DatabaseMember,
  { scheme, port }: ManagerUrl,
  question: Question<unknown>,
  options: PodCallOptions,
): Promise<Sent> {
  const { urls = [], secret: name } = statefulSet.restart?.database ?? {};
  if (pods === undefined) return { silence: "this process calls no pods" };
  const { namespace } = pod;
  const place = { scheme, port, pod: pod.name, service: statefulSet.serviceName, namespace };
  const authority = name === undefined ? undefined : ({ resource: "secrets", name } as const);
  // Where both schemes are named, anyone on the way could answer over http in order to get the password.
  const isAlsoSecure = scheme === "http" && urls.some((one) => one.scheme === "https");
  try {
    const address = await trust(cluster, { ...place, group: askedGroupOf(statefulSet) }, authority);
    const isKnown = name !== undefined && !isAlsoSecure;
    const authorization = isKnown ? await readPassword(cluster, { namespace, name }) : undefined;
    return { answer: await pods.send(address, requestOf(question, authorization), options) };
  } catch (error) {
    if (error instanceof CredentialError) return { silence: error.message };
    if (!(error instanceof PodHttpError)) throw error;
    const why = error.isUntrusted ? `: ${describeUntrusted(restartDatabaseSecret.key, authority)}` : "";
    return { silence: `${error.message}${why}`, isAsked: isUnanswered(error) };
  }
}

/** True if nothing listens, or no answer came in time. A server with another certificate counts as one that answers. */
function isUnanswered({ failed, sent, status, isUntrusted }: PodHttpError): boolean {
  if (isUntrusted || status !== undefined) return false;
  return failed === "connection" || (failed === "time" && sent);
}

function requestOf(
  { method, path, body, mostBytes }: Question<unknown>,
  authorization: string | undefined,
): PodRequest {
  const content = body === undefined ? undefined : { "content-type": "application/json" };
  return {
    ...{ method, path, headers: { ...content, ...(authorization && { authorization }) } },
    // Each request sets a value, so that it may come twice.
    repeatable: true,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(mostBytes === undefined ? {} : { mostBytes }),
  };
}
