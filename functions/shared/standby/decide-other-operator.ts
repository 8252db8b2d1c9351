/** Whether rollout-operator runs in a namespace, and how long Sluice stands by for it. Pure. */

import type { StandBy } from "../contract/stand-by.ts";
import { wait } from "../contract/verdict.ts";
import type { PodObject } from "../kubernetes/cluster.ts";

/** What its pods are called by their labels and by their image. */
export const operatorName = "rollout-operator";
/** The labels that its chart, its manifests, and the charts of Mimir, Loki and Tempo write. */
export const operatorLabels = ["app.kubernetes.io/name", "name"] as const;

/** Its pods are listed this often, in milliseconds. */
export const listEveryMs = 30_000;
/** After a LIST that failed the next one comes this much later, in milliseconds, and after a 403 as late as any. */
export const listAgainMs = 5_000;
/** Its last pod must have been gone for so long, in milliseconds: what it did last is then seen by all watches. */
export const goneForMs = 30_000;
/** A LIST says nothing any more after this time, in milliseconds. One that fails in between must not stop a drain. */
export const staleAfterMs = 60_000;

/** A pod of it that has not ended. */
export interface RunningPod {
  readonly name: string;
  /** When it must have ended, for a pod that is being deleted; undefined for another one. */
  readonly endsAt: string | undefined;
}

/** What the LISTs have shown of one namespace. */
export interface SeenOperator {
  /** Its pods that have not ended, in the last LIST, those that are not being deleted first. */
  readonly running: readonly RunningPod[];
  /** The last pod that ran, and the time at which a LIST first missed it; undefined if it has been gone for long enough. */
  readonly gone: { readonly pod: string; readonly sinceMs: number } | undefined;
}

/** A namespace of which no LIST has shown a pod of it. */
export const unseen: SeenOperator = { running: [], gone: undefined };

/** True for a pod of rollout-operator that has not ended, by its labels and by the image of one of its containers. */
export function isOperator({ metadata, spec, status }: PodObject): boolean {
  const { labels = {} } = metadata;
  if (!operatorLabels.some((key) => labels[key] === operatorName)) return false;
  if (status?.phase === "Succeeded" || status?.phase === "Failed") return false;
  const containers = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])];
  return containers.some(({ image }) => image !== undefined && lastPathPart(image) === operatorName);
}

/** The last part of an image's path, without tag and digest. The colon of a port is in an earlier part. */
function lastPathPart(image: string): string {
  const [path = ""] = image.split("@");
  const [name = ""] = path.slice(path.lastIndexOf("/") + 1).split(":");
  return name;
}

/** What messages say of a pod. */
export function describePod({ metadata: { name, deletionTimestamp } }: PodObject): RunningPod {
  return { name, endsAt: deletionTimestamp };
}

/** What is known after a LIST that showed these pods of it. `atMs`: when its answer came, by a clock that counts no sleep. */
export function noteListed(before: SeenOperator, pods: readonly RunningPod[], atMs: number): SeenOperator {
  if (pods.length > 0) return { running: inOrder(pods), gone: undefined };
  const [last] = before.running;
  if (last !== undefined) return { running: [], gone: { pod: last.name, sinceMs: atMs } };
  const { gone } = before;
  return { running: [], gone: gone !== undefined && atMs - gone.sinceMs < goneForMs ? gone : undefined };
}

/** A pod with both labels is in two LISTs. */
function inOrder(pods: readonly RunningPod[]): readonly RunningPod[] {
  const byName = [...new Map(pods.map((pod) => [pod.name, pod])).values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const isLeaving = ({ endsAt }: RunningPod) => endsAt !== undefined;
  return [...byName.filter((pod) => !isLeaving(pod)), ...byName.filter(isLeaving)];
}

/** What a namespace is decided by. */
export interface OperatorSnapshot {
  readonly namespace: string;
  readonly seen: SeenOperator;
  /** Milliseconds since the last LIST that succeeded was sent; undefined if none has. */
  readonly ageMs: number | undefined;
  /** Milliseconds until the next LIST. */
  readonly nextMs: number;
  /** Why the newest LIST failed; undefined if it did not. */
  readonly failure: { readonly message: string; readonly isRightMissing: boolean } | undefined;
}

/** The wait of all functions in a namespace; undefined where they may act. */
export function decideStandBy({ namespace, seen, ageMs, nextMs, failure }: OperatorSnapshot): StandBy | undefined {
  const where = { requeueAfterMs: Math.max(1, Math.ceil(nextMs)) };
  if (ageMs === undefined || ageMs >= staleAfterMs) return waitForList(namespace, ageMs, failure);
  const [pod, ...others] = seen.running;
  if (pod !== undefined) {
    const { name, endsAt } = pod;
    const message = messageFor(`${namespace}/${name}`, pod, others.length);
    return { ...wait("other-operator", message, where), identity: endsAt === undefined ? name : `${name} terminating` };
  }
  if (seen.gone === undefined) return undefined;
  const message = `pod ${namespace}/${seen.gone.pod} of rollout-operator is gone: Sluice acts when it has been gone for 30 s`;
  return wait("other-operator", message, where);
}

/** `others`: how many pods of it there are besides. */
function messageFor(path: string, { endsAt }: RunningPod, others: number): string {
  const more = others === 0 ? "" : ` and ${others} more`;
  const acts = `Sluice acts when ${others === 0 ? "that pod has" : "the last of them has"} been gone for 30 s`;
  if (endsAt === undefined)
    return `rollout-operator runs as pod ${path}${more}, and two operators must not act on one group: ${acts}. Scale it down, or set OTHER_OPERATOR=ignore if it serves other groups`;
  return `pod ${path}${more} of rollout-operator is being deleted, and must have ended at ${endsAt}: ${acts}. If its node is lost, delete the pod by force`;
}

function waitForList(namespace: string, ageMs: number | undefined, failure: OperatorSnapshot["failure"]): StandBy {
  const where = { requeueAfterMs: failure?.isRightMissing === true ? listEveryMs : listAgainMs };
  const age =
    ageMs === undefined ? "no LIST has been answered yet" : `the last LIST is ${Math.floor(ageMs / 1000)} s old`;
  const place = namespace === "" ? "any namespace" : namespace;
  const message = `whether rollout-operator runs in ${place} is unknown, and Sluice acts when it has listed its pods: ${failure?.message ?? age}`;
  const stands = wait("other-operator", message, where);
  return failure?.isRightMissing === true ? { ...stands, identity: "unlisted" } : stands;
}
