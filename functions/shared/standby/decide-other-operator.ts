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

/** What the LISTs have shown of one namespace. */
export interface SeenOperator {
  /** Names of its pods that have not ended, in the last LIST. */
  readonly running: readonly string[];
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

/** What is known after a LIST that showed these pods of it. `atMs`: when its answer came, by a clock that counts no sleep. */
export function noteListed(before: SeenOperator, running: readonly string[], atMs: number): SeenOperator {
  if (running.length > 0) return { running, gone: undefined };
  const [last] = before.running;
  if (last !== undefined) return { running, gone: { pod: last, sinceMs: atMs } };
  const { gone } = before;
  return { running, gone: gone !== undefined && atMs - gone.sinceMs < goneForMs ? gone : undefined };
}

/** What a namespace is decided by. */
export interface OperatorSnapshot {
  readonly namespace: string;
  readonly seen: SeenOperator;
  /** Milliseconds since the last LIST that succeeded; undefined if none has. */
  readonly ageMs: number | undefined;
  /** Why the newest LIST failed; undefined if it did not. */
  readonly failure: { readonly message: string; readonly isRightMissing: boolean } | undefined;
}

/** The wait of all functions in a namespace; undefined where they may act. */
export function decideStandBy({ namespace, seen, ageMs, failure }: OperatorSnapshot): StandBy | undefined {
  if (ageMs === undefined || ageMs >= staleAfterMs) return waitForList(namespace, failure);
  const nextMs = failure === undefined ? Math.max(1, Math.ceil(listEveryMs - ageMs)) : listAgainMs;
  const where = { requeueAfterMs: nextMs };
  const [running] = seen.running;
  if (running !== undefined) {
    const message = `rollout-operator runs as pod ${namespace}/${running}, and two operators must not act on one group: Sluice acts when that pod has been gone for 30 s. Scale it down, or set OTHER_OPERATOR=ignore if it serves other groups`;
    return { ...wait("other-operator", message, where), identity: running };
  }
  if (seen.gone === undefined) return undefined;
  const message = `pod ${namespace}/${seen.gone.pod} of rollout-operator is gone: Sluice acts when it has been gone for 30 s`;
  return wait("other-operator", message, where);
}

function waitForList(namespace: string, failure: OperatorSnapshot["failure"]): StandBy {
  const where = { requeueAfterMs: failure?.isRightMissing === true ? listEveryMs : listAgainMs };
  const cause = failure?.message ?? "no LIST has been answered yet";
  const message = `whether rollout-operator runs in ${namespace} is unknown, and Sluice acts when it has listed its pods: ${cause}`;
  const stands = wait("other-operator", message, where);
  return failure?.isRightMissing === true ? { ...stands, identity: "unlisted" } : stands;
}
