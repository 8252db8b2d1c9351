/** What is read to decide which process is restarted: pods with a phase, and what their process managers report. */

import type { Context } from "../shared/contract/context.ts";
import type { GroupMemory } from "../shared/contract/memory.ts";
import { ofStatefulSets } from "../shared/groups/zones.ts";
import { find } from "../shared/kubernetes/find.ts";
import type { Blocked } from "../shared/ledger/claim-kinds.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { parsePod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import { readStatus } from "./calls.ts";
import type { Candidate, RestartSnapshot } from "./decide.ts";

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

/** No more are asked in one reconcile: the restart of the first one keeps the others waiting. */
const mostAsked = 8;

/** Reads the pods anew, after the ledger (rule R21), and asks those that are to restart. Throws ClusterError. */
export async function observe(observed: GroupObservation, context: Context): Promise<RestartSnapshot> {
  const { claims } = observed.ledger;
  const underWay = waits.get(context.memoryOf(observed.key));
  if (claims.some(({ kind }) => kind === "process")) return { candidates: [], claims, underWay };
  const shown = ofStatefulSets(observed.zones).flatMap((zone) =>
    zone.pods.filter(({ restart }) => restart !== undefined).map((pod) => ({ zone, pod })),
  );
  const candidates = await Promise.all(
    shown.slice(0, mostAsked).map(async ({ zone, pod }): Promise<Candidate | undefined> => {
      const now = await find(context.cluster, "pods", pod);
      if (now?.metadata.uid !== pod.uid) return undefined;
      const read = parsePod(now);
      const isAsked = read.restart?.phase === "schedule" && zone.workload.restart?.manager !== undefined;
      const answer = isAsked ? await readStatus(context, zone.workload, read) : undefined;
      return { zone, pod: read, answer };
    }),
  );
  return { candidates: candidates.filter((one) => one !== undefined), claims, underWay: undefined };
}
