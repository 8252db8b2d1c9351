/** Reports templates that do not fit to processes which restart inside their pods. */

import { BoundedMap } from "../shared/base/bounded-map.ts";
import type { Context } from "../shared/contract/context.ts";
import type { GroupMemory } from "../shared/contract/memory.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import { find } from "../shared/kubernetes/find.ts";
import type { GroupKey, StatefulSet } from "../shared/workloads/statefulsets.ts";
import type { RestartSnapshot } from "./decide.ts";
import { adviceOn } from "./decide-template.ts";
import { name } from "./observe.ts";

const remembered = 1_000;
/** By the uid of a StatefulSet the revision whose template was read. Losing it costs a read. */
const memories = new WeakMap<GroupMemory, BoundedMap<string, string>>();

/** One Event for each StatefulSet and what its template lacks. It is read once for each revision. Throws ClusterError. */
export async function reportTemplates(context: Context, key: GroupKey, { zones }: RestartSnapshot): Promise<void> {
  if (context.mode === "shadow") return;
  const memory = context.memoryOf(key);
  const read = memories.get(memory) ?? new BoundedMap(remembered);
  memories.set(memory, read);
  for (const { workload } of zones) {
    const { uid, updateRevision, restart, deleting } = workload;
    if (restart?.manager === undefined || deleting || updateRevision === undefined) continue;
    if (read.get(uid) === updateRevision) continue;
    await report(context, key, workload);
    read.set(uid, updateRevision);
  }
}

async function report(context: Context, key: GroupKey, statefulSet: StatefulSet): Promise<void> {
  const found = await find(context.cluster, "statefulsets", statefulSet);
  if (found?.metadata.uid !== statefulSet.uid) return;
  const message = adviceOn(found.spec?.template?.spec?.containers ?? []);
  if (message === undefined) return;
  await recordOnce(context, name, key, {
    about: { resource: "statefulsets", ...statefulSet },
    ...{
      type: "Warning",
      reason: eventReasons.restartTemplateUnfit,
      message,
      identity: `${statefulSet.uid} ${message}`,
    },
  });
}
