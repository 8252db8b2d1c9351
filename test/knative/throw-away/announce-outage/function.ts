import * as annotationTable from "../../../../functions/shared/annotations/table.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { FunctionDefinition, ReconcileResult } from "../../../../functions/shared/contract/definition.ts";
import type { KeyLookUp, ObjectRef } from "../../../../functions/shared/contract/keys.ts";
import { hasCode } from "../../../../functions/shared/kubernetes/cluster.ts";
import { type GroupReconciler, reconcileGroup } from "../../../../functions/shared/reconcile/perform.ts";
import { ledgerNeeds } from "../../../../functions/shared/transaction/ledger-copy.ts";
import { groupKeyOf } from "../../../../functions/shared/workloads/group-key.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { actOn, eventPolicy } from "./act.ts";
import { decide, type OutageSnapshot, type Target } from "./decide.ts";
import { anchorAnnotation, listOwners, listOwnersOnNode, name, observe, ownersOf } from "./observe.ts";

/** Announces the outages that ConfigMaps report, in the ledger of their owner's group. Its keys are the owners. */
export const announceOutage: FunctionDefinition<ObjectRef> = {
  name,
  concern: "announce what ConfigMaps say is lost",
  guards: {},
  keyedBy: "statefulsets",
  watches: [
    { resource: "configmaps", keysOf: ({ namespace, name }) => ownersOfNamed(namespace, name) },
    {
      resource: "nodes",
      keysOf: ({ name }) => ({ name: `nodes ${name}`, find: (from) => listOwnersOnNode(from, name) }),
    },
  ],
  listKeys: listOwners,
  needs: [
    {
      group: "",
      resource: "configmaps",
      verbs: ["get", "list", "patch"],
      changes: [`metadata.annotations[${anchorAnnotation}]`],
    },
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    { group: "", resource: "nodes", verbs: ["get"] },
    { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    ...ledgerNeeds,
  ],
  kindNeeds: [{ list: "mirrored", subresource: "scale", verbs: ["get"] }],
  reads: [annotationTable.rolloutGroup, annotationTable.claims],
  writes: [...annotationTable.ledgerEntries, annotationTable.claims, annotationTable.verdicts],
  reconcile,
};

/** An event names a ConfigMap; a GET tells its owner. */
function ownersOfNamed(namespace: string, configMap: string): KeyLookUp<ObjectRef> {
  const find: KeyLookUp<ObjectRef>["find"] = async ({ cluster }) => {
    try {
      return ownersOf(await cluster.get("configmaps", { namespace, name: configMap }));
    } catch (error) {
      if (hasCode(error, 404)) return [];
      throw error;
    }
  };
  return { name: `configmaps ${namespace}/${configMap}`, find };
}

async function reconcile(
  context: Context,
  key: ObjectRef,
  triggers: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  try {
    const group = groupKeyOf(parseStatefulSet(await context.cluster.get("statefulsets", key)));
    const observing: GroupReconciler<OutageSnapshot, Target>["observe"] = (observed, { cluster }) =>
      observe(key, observed, { cluster });
    return await reconcileGroup(context, { name, eventPolicy, observe: observing, decide, actOn }, group, triggers);
  } catch (error) {
    if (hasCode(error, 404)) return { requeueAfterMs: undefined, pendingActs: undefined };
    throw error;
  }
}
