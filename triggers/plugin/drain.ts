/** `kubectl sluice drain`: asks by dry runs what an eviction of each pod of a node would be answered now. */
import { guardCause } from "../../functions/shared/admission/answers.ts";
import { mapLimit } from "../../functions/shared/base/map-limit.ts";
import { neverGuards } from "../../functions/shared/groups/guards.ts";
import {
  type Cluster,
  ClusterError,
  isRightMissing,
  type PodObject,
} from "../../functions/shared/kubernetes/cluster.ts";
import { find } from "../../functions/shared/kubernetes/find.ts";
import { NotFound } from "./groups.ts";
import type { ApiConnection } from "./terminal.ts";
import { type Emphasis, tableOf } from "./text.ts";

/**
 * - `waits`: the API server answers 429, at which `kubectl drain` tries again.
 * - `never`: it answers otherwise, at which `kubectl drain` gives up; or the numbers of a budget allow it at no time.
 * - `unknown`: the user may not ask.
 */
export interface EvictionForecast {
  readonly pod: string;
  readonly answer: "allowed" | "waits" | "never" | "unknown";
  /** Null where the answer is not Sluice's. */
  readonly guard: string | null;
  readonly message: string | null;
}

export interface NodeForecast {
  readonly node: string;
  readonly evictions: readonly EvictionForecast[];
  /** Pods that `kubectl drain` does not evict. */
  readonly leftOut: { readonly ofDaemonSets: number; readonly mirrors: number };
}

/** The pod of a file on the node, which the API server only shows. */
const mirrorKey = "kubernetes.io/config.mirror";
/** At once, so that a large node takes seconds, and reviews of others hardly wait. */
const mostQuestions = 8;
/** The API server puts this before the message of a webhook. */
const webhookPrefix = /^admission webhook "[^"]*" denied the request: /;

/**
 * Asks about each pod alone: a pod that may go now may have to wait once another one has gone.
 *
 * @param namespace of the pods; undefined: all
 * @throws NotFound, ClusterError
 */
export async function forecastDrain(
  { cluster, askEviction }: Pick<ApiConnection, "cluster" | "askEviction">,
  node: string,
  namespace: string | undefined,
): Promise<NodeForecast> {
  if (!(await isNode(cluster, node))) throw new NotFound(`there is no Node ${node}`);
  const { items } = await cluster.list("pods", { nodeName: node, ...(namespace !== undefined && { namespace }) });
  const mirrors = items.filter(({ metadata }) => metadata.annotations?.[mirrorKey] !== undefined);
  const others = items.filter((pod) => !mirrors.includes(pod));
  const evicted = others.filter((pod) => !isOfDaemonSet(pod));
  const answers = await mapLimit(evicted, mostQuestions, (pod) => ask(askEviction, pod));
  const leftOut = { ofDaemonSets: others.length - evicted.length, mirrors: mirrors.length };
  return { node, evictions: answers.filter((answer) => answer !== undefined), leftOut };
}

/** True also where the user may not read nodes: the pods of the node say enough. */
async function isNode(cluster: Cluster, name: string): Promise<boolean> {
  try {
    return (await find(cluster, "nodes", { namespace: "", name })) !== undefined;
  } catch (error) {
    if (isRightMissing(error)) return true;
    throw error;
  }
}

function isOfDaemonSet({ metadata }: PodObject): boolean {
  return metadata.ownerReferences?.some(({ kind, controller }) => kind === "DaemonSet" && controller === true) ?? false;
}

/** Undefined for a pod that is gone by now. */
async function ask(
  askEviction: ApiConnection["askEviction"],
  { metadata: { namespace = "", name, uid } }: PodObject,
): Promise<EvictionForecast | undefined> {
  const pod = `${namespace}/${name}`;
  try {
    await askEviction({ namespace, name }, uid);
    return { pod, answer: "allowed", guard: null, message: null };
  } catch (error) {
    if (!(error instanceof ClusterError) || error.code === 0 || error.code === 401) throw error;
    // Another pod may have the name by now. A drain that begins later sees where that is.
    if (error.code === 404 || error.code === 409) return undefined;
    const guard = error.causes.find(({ reason }) => reason === guardCause)?.message ?? null;
    return { pod, answer: answerOf(error, guard), guard, message: error.message.replace(webhookPrefix, "") };
  }
}

function answerOf(error: ClusterError, guard: string | null): EvictionForecast["answer"] {
  const { code } = error;
  if (isRightMissing(error)) return "unknown";
  return code === 429 && !(guard !== null && Object.hasOwn(neverGuards, guard)) ? "waits" : "never";
}

const order = ["never", "unknown", "waits", "allowed"] as const;

/** A line for each pod, the worst first, and a line that counts them. */
export function formatDrain({ node, evictions, leftOut }: NodeForecast, emphasize: Emphasis): string {
  const sorted = order.flatMap((answer) => evictions.filter((one) => one.answer === answer));
  const rows = sorted.map(({ pod, answer, guard, message }) => [pod, answer, guard ?? "-", message ?? "-"]);
  const counts = [...Map.groupBy(sorted, ({ answer }) => answer)].map(([answer, all]) => `${all.length} ${answer}`);
  const others = [
    leftOut.ofDaemonSets > 0 ? `${leftOut.ofDaemonSets} of DaemonSets` : "",
    leftOut.mirrors > 0 ? `${leftOut.mirrors} of files on the node` : "",
  ].filter(Boolean);
  const without = others.length === 0 ? "" : `, without ${others.join(" and ")}`;
  const summary = `${node}: ${counts.join(", ") || "no pod to evict"}${without}`;
  return `${[...tableOf(["POD", "EVICTION", "GUARD", "WHY"], rows, emphasize), ...(rows.length > 0 ? [""] : []), summary].join("\n")}\n`;
}

/** 0: all allowed. 3: some wait. 1: some never, or the user may not ask. */
export function codeOfDrain({ evictions }: NodeForecast): 0 | 1 | 3 {
  const has = (...answers: readonly EvictionForecast["answer"][]) =>
    evictions.some(({ answer }) => answers.includes(answer));
  if (has("never", "unknown")) return 1;
  return has("waits") ? 3 : 0;
}
