/** One pass over a FoundationDBCluster. */
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { type ObjectReconciler, reconcileObject } from "../shared/reconcile/reconcile-object.ts";
import { carryOut, recordEvents } from "./act.ts";
import { type ClusterVerdict, decide } from "./decide.ts";
import { type ClusterObservation, name, observe } from "./observe.ts";

const clusterReconciler: ObjectReconciler<ClusterObservation, ClusterVerdict> = {
  name,
  refusedForMs: 15_000,
  // Blocks keep volumes without our finalizer, too.
  dispensable: "protect",
  observe,
  decide: ({ snapshot }, isProtectionRefused) => decide({ ...snapshot, isProtectionRefused }),
  async announce(looked) {
    await recordEvents(looked);
    return "told";
  },
  carryOut,
};

/** Throws ClusterError. */
export function reconcile(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  return reconcileObject(context, clusterReconciler, key);
}
