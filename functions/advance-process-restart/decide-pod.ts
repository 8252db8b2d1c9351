/** What keeps one pod from a restart, besides the others of its group. Pure. */

import { restartManager } from "../shared/annotations/restart.ts";
import { namesOrdinal } from "../shared/ledger/claim.ts";
import { type Blocked, blockedBy } from "../shared/ledger/claim-kinds.ts";
import type { Reservation } from "../shared/ledger/reservation.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { Candidate } from "./candidate.ts";
import { blockedByFiles } from "./decide-files.ts";
import { refuseTerminating } from "./decide-rules.ts";
import { blockedByService } from "./decide-service.ts";

/** What needs no call: the settings, and what other functions do with the pod (rules R17 and R18). */
export function blockedByPod({ zone, pod, publication }: Candidate): Blocked | undefined {
  const { name, restart } = zone.workload;
  if (restart?.manager === undefined) {
    const why = restart?.malformed[0]?.message ?? `it names no port: write ${restartManager.key}`;
    return { guard: "restart-manager-missing", message: `no pod of ${name} can be restarted in place: ${why}` };
  }
  const unnamed = blockedByService(zone.workload, publication);
  if (unnamed !== undefined) return unnamed;
  const terminating = refuseTerminating(pod);
  if (terminating !== undefined) return terminating;
  const claim = zone.claims.find((one) => namesOrdinal(one, pod.ordinal));
  if (claim !== undefined) return blockedBy(claim);
  const reservation = zone.reserved.get(pod.ordinal);
  if (reservation !== undefined && !isOver(reservation, pod))
    return { guard: "budget", message: `${pod.name} is reserved` };
  return undefined;
}

/**
 * True once the reserved pod is gone and the one that came instead is not ready. Its files may have broken the new pod: only
 * its restart with other files ends the reservation.
 */
export function isOver({ uid }: Pick<Reservation, "uid">, pod: Pick<Pod, "uid" | "readySinceMs"> | undefined): boolean {
  return pod !== undefined && pod.uid !== uid && pod.readySinceMs === undefined;
}

const busyStates: ReadonlySet<string> = new Set(["away", "stopping", "killing"]);

/** What the report of its process manager says against a restart, and its files. */
export function blockedByManager({ pod, answer, files, waitedMs = 0 }: Candidate): Blocked | undefined {
  const silent = (why: string): Blocked => ({
    guard: "manager-silent",
    message: `the server of ${pod.name} reports nothing: ${why}`,
  });
  if (answer === undefined) return silent("it was not asked yet");
  if ("silence" in answer) return silent(answer.silence);
  if (answer.podUid !== pod.uid) return silent("another pod answers by its name");
  if (!busyStates.has(answer.state)) return blockedByFiles(pod, files, answer.mountedSum, waitedMs);
  return { guard: "manager-busy", message: `the server of ${pod.name} reports the state ${answer.state}` };
}
