/** What is read of a group some of whose volumes are to be suspended, or are. */

import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import { asOfNow, type PodDisruptionBudget, parseDisruptionBudget } from "../shared/groups/pod-disruption-budget.ts";
import { type AskedPod, openQuestions, withAnswers } from "../shared/health/ask-pods.ts";
import { refusedSizes } from "../shared/scaling/resize.ts";
import { observeVolumes } from "../shared/suspension/observe-volumes.ts";
import { volumeHoldSetting } from "../shared/suspension/settings.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { isRequested, isSuspendedInPart } from "../shared/volumes/members.ts";
import { parsePod } from "../shared/workloads/pods.ts";
import { decide } from "./decide.ts";
import type { SuspendSnapshot } from "./lowering.ts";

export const name = "suspend-group";
export const settings = { volumeHold: volumeHoldSetting };

/** Throws ClusterError. */
export async function observe(observed: GroupObservation, context: Context): Promise<SuspendSnapshot> {
  const { key } = observed;
  const volumes = await observeVolumes(context, observed, name, {
    claimKind: "scale-down",
    isAsked: (one) => isRequested(one) && !isSuspendedInPart(one),
  });
  const mayGo = volumes.members.some((one) => one.set.owner !== undefined && one.pod !== undefined && isRequested(one));
  return {
    ...volumes,
    disruptionBudgets: mayGo ? await readDisruptionBudgets(context, key.namespace) : [],
    refused: refusedSizes(context, key),
    protects: valuesOf(settings, context.settings).volumeHold === "keep",
    questions: openQuestions(context, observed),
  };
}

/** The pods are listed last: a budget whose controller has not counted a deletion yet must not allow another one. */
async function readDisruptionBudgets({ cluster }: Context, namespace: string): Promise<readonly PodDisruptionBudget[]> {
  const budgets = await cluster.list("poddisruptionbudgets", { namespace });
  const pods = await cluster.list("pods", { namespace });
  const listed = pods.items.map(parsePod);
  return budgets.items.map((budget) => asOfNow(parseDisruptionBudget(budget), listed));
}

/** Rule R22: the pods that would go, and whose StatefulSets ask, are asked. */
export function ask(
  context: Context,
  { key }: GroupObservation,
  snapshot: SuspendSnapshot,
): Promise<SuspendSnapshot> | undefined {
  if (snapshot.questions === undefined) return undefined;
  return withAnswers(context, name, key, snapshot, goersBy);
}

function goersBy(snapshot: SuspendSnapshot): readonly AskedPod[] {
  const verdict = decide(snapshot);
  if (verdict.kind === "wait") return [];
  return verdict.targets.flatMap((target) => {
    const own = "leaving" in target && snapshot.zones.find(({ workload }) => workload.uid === target.set.uid);
    const uids = "leaving" in target ? target.leaving.map(({ pod }) => pod?.uid) : [];
    if (!own) return [];
    const { workload, pods } = own;
    return pods.filter(({ uid }) => uids.includes(uid)).map((pod) => ({ statefulSet: workload, pod }));
  });
}
