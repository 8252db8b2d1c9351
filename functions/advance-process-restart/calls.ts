/** Calls to the process manager of one pod: what it reports, and what it is asked to do. */

import { fieldsOf, parseFields } from "../shared/base/fields.ts";
import type { Context } from "../shared/contract/context.ts";
import { CredentialError, readToken, trust } from "../shared/health/credentials.ts";
import { type PodAddress, PodHttpError, type PodRequest } from "../shared/http/pod-http.ts";
import { askedGroupOf } from "../shared/workloads/group-key.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";

/** The most bytes of an answer. A status has some hundred. */
const mostBytes = 16 * 1024;

/** What a process manager reports about its pod. */
export interface ManagerStatus {
  readonly podUid: string;
  readonly state: string;
  /** The process that runs; undefined while none does. */
  readonly processId: string | undefined;
  /** How often it has tried to start the process since it was asked to. */
  readonly attempts: number;
  /** The sum of the mounted files; undefined where there are none, or they cannot be read. */
  readonly mountedSum: string | undefined;
  /** The sum that the last call named, or else that of the files which the process has; undefined where neither is known. */
  readonly triedSum: string | undefined;
  /** The sum that the process was started with; undefined where it is not known. */
  readonly runningSum?: string | undefined;
  /** The highest epoch of a call; 0 before the first one. */
  readonly lastEpoch: number;
  /** The restart of that call. */
  readonly restartId: string | undefined;
  /** What the process was last asked for: a stop that waits for clients was not asked for yet. */
  readonly lastCommand: string | undefined;
}

/** Why a process manager has reported nothing. */
export interface ManagerSilence {
  readonly silence: string;
}

export type StatusAnswer = ManagerStatus | ManagerSilence;

export type Verb = "stop" | "start" | "kill";

export interface ManagerCall {
  readonly verb: Verb;
  readonly restartId: string;
  readonly epoch: number;
  readonly sum: string | undefined;
}

const sumPattern = /^\d{1,3}:[\da-f]{8,128}$/;
const textOf = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);
const countOf = (value: unknown): number => (Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0);

/** The status in the body of an answer; undefined for any other body. */
export function parseStatus(body: string): ManagerStatus | undefined {
  const fields = fieldsOf(parseFields(body)) ?? {};
  const [podUid, state, sum] = [textOf(fields.podUid), textOf(fields.state), textOf(fields.configChecksum)];
  if (podUid === undefined || state === undefined) return undefined;
  return {
    podUid,
    state,
    processId: state === "started" ? textOf(fields.processId) : undefined,
    attempts: countOf(fields.attempts),
    mountedSum: sum !== undefined && sumPattern.test(sum) ? sum : undefined,
    triedSum: textOf(fields.stagedChecksum) ?? textOf(fields.runningChecksum),
    runningSum: textOf(fields.runningChecksum),
    lastEpoch: countOf(fields.lastEpoch),
    restartId: textOf(fields.restartId),
    lastCommand: textOf(fields.lastCommand),
  };
}

/** What the process manager of a pod reports now. Throws ClusterError. */
export function readStatus(context: Context, statefulSet: StatefulSet, pod: Pod): Promise<StatusAnswer> {
  return send(context, statefulSet, pod, { method: "GET", path: "/es/status", mostBytes });
}

/** Sends a call no later than `notAfterMs` of the monotonic clock (rule R9). Throws ClusterError. */
export function callManager(
  context: Context,
  statefulSet: StatefulSet,
  pod: Pod,
  { verb, restartId, epoch, sum }: ManagerCall,
  notAfterMs: number,
): Promise<StatusAnswer> {
  const body = JSON.stringify({ podUid: pod.uid, restartId, epoch, configChecksum: sum });
  const headers = { "content-type": "application/json" };
  // A process manager does nothing twice for one epoch.
  const request = { method: "POST", path: `/es/${verb}`, headers, body, mostBytes, repeatable: true } as const;
  return send(context, statefulSet, pod, request, notAfterMs);
}

async function send(
  { cluster, pods }: Context,
  statefulSet: StatefulSet,
  pod: Pod,
  request: PodRequest,
  notAfterMs?: number,
): Promise<StatusAnswer> {
  const manager = statefulSet.restart?.manager;
  if (pods === undefined || manager === undefined) return { silence: "it cannot be called" };
  const { scheme, port, secret: name } = manager;
  const { namespace } = pod;
  const address: PodAddress = {
    ...{ scheme, port, pod: pod.name, service: statefulSet.serviceName, namespace },
    group: askedGroupOf(statefulSet),
  };
  try {
    const [authorization, trusting] = await Promise.all([
      readToken(cluster, { namespace, name }),
      trust(cluster, address, { resource: "secrets", name }),
    ]);
    const headers = { ...request.headers, authorization };
    const options = notAfterMs === undefined ? {} : { notAfterMs };
    const { status, body } = await pods.send(trusting, { ...request, headers }, options);
    const reported = status === 200 || status === 202 ? parseStatus(body) : undefined;
    return reported ?? { silence: `it answered ${status}${messageIn(body)}` };
  } catch (error) {
    if (error instanceof CredentialError || error instanceof PodHttpError) return { silence: error.message };
    throw error;
  }
}

function messageIn(body: string): string {
  const message = textOf(parseFields(body)?.message);
  return message === undefined ? "" : `: ${message.slice(0, 200)}`;
}
