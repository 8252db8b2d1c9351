/** What the process managers of several pods report. */

import { mapLimit } from "../shared/base/map-limit.ts";
import type { Context } from "../shared/contract/context.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import { type ManagerStatus, readStatus } from "./calls.ts";

const askedAtOnce = 8;

/** The reports of those that have answered for their pods; a pod that leaves is not asked. Throws ClusterError. */
export async function askProcesses(
  context: Context,
  statefulSet: StatefulSet,
  pods: readonly Pod[],
): Promise<readonly ManagerStatus[]> {
  const staying = pods.filter(({ terminating }) => !terminating);
  const answers = await mapLimit(staying, askedAtOnce, async (pod) => {
    const answer = await readStatus(context, statefulSet, pod);
    return "podUid" in answer && answer.podUid === pod.uid ? [answer] : [];
  });
  return answers.flat();
}

/** The sums of the files that processes which run were started with. */
export function startedWith(known: readonly ManagerStatus[]): readonly string[] {
  const running = known.filter(({ processId }) => processId !== undefined);
  return [...new Set(running.flatMap(({ runningSum }) => runningSum ?? []))];
}
