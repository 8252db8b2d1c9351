/** What is read to decide which process is restarted: pods with a phase, and what their process managers report. */

import type { Context } from "../shared/contract/context.ts";
import type { GroupMemory } from "../shared/contract/memory.ts";
import { ofStatefulSets } from "../shared/groups/zones.ts";
import { find } from "../shared/kubernetes/find.ts";
import type { Blocked } from "../shared/ledger/claim-kinds.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { type Pod, parsePod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import { readStatus } from "./calls.ts";
import { byOrder, type Candidate, mayBegin, type RestartSnapshot } from "./decide.ts";

export const name = "advance-process-restart";

/** True for a StatefulSet whose processes this function restarts. */
export function isManaged({ restart, deleting }: StatefulSet): boolean {
  return restart !== undefined && !deleting;
}

/** What the restart under way waits for, by the memory of its group. Losing it costs a message. */
const waits = new WeakMap<GroupMemory, Blocked>();

export function noteWait(memory: GroupMemory, blocked: Blocked): void {
  waits.set(memory, blocked);
}

/** So many are asked at once. More are asked only while none of those may begin: the restart of one keeps the others waiting. */
const askedAtOnce = 8;

/** Reads the pods anew, after the ledger (rule R21), and asks those that are to restart. Throws ClusterError. */
export async function observe(observed: GroupObservation, context: Context): Promise<RestartSnapshot> {
  const { claims } = observed.ledger;
  const underWay = waits.get(context.memoryOf(observed.key));
  if (claims.some(({ kind }) => kind === "process")) return { candidates: [], claims, underWay };
  const shown = ofStatefulSets(observed.zones).flatMap((zone) =>
    zone.pods.filter(isConcerned).map((pod): Candidate => ({ zone, pod, answer: undefined })),
  );
  const candidates: Candidate[] = [];
  const left = shown.sort(byOrder);
  while (left.length > 0 && !candidates.some(mayBegin)) {
    const read = await Promise.all(left.splice(0, askedAtOnce).map((one) => readAnew(context, one)));
    candidates.push(...read.flat());
  }
  return { candidates, claims, underWay: undefined };
}

/** There is nothing to do for a pod without a phase, and for one whose restart has failed. */
function isConcerned({ restart }: Pod): boolean {
  return restart !== undefined && restart.phase !== "failed";
}

/** The pod as it is now, and what its process manager reports; nothing where another pod has its name. Throws ClusterError. */
async function readAnew(context: Context, { zone, pod }: Candidate): Promise<readonly Candidate[]> {
  const now = await find(context.cluster, "pods", pod);
  if (now?.metadata.uid !== pod.uid) return [];
  const read = parsePod(now);
  const isAsked = read.restart?.phase === "schedule" && zone.workload.restart?.manager !== undefined;
  const answer = isAsked ? await readStatus(context, zone.workload, read) : undefined;
  return [{ zone, pod: read, answer }];
}
