/** One reconcile of a node: at most one write, and what it shows then. */
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { type ObjectReconciler, reconcileObject } from "../shared/reconcile/reconcile-object.ts";
import { carryOut } from "./act.ts";
import { decide, type HealthSnapshot, type HealthVerdict } from "./decide.ts";
import { name, observe } from "./observe.ts";

/** How soon to try again what the API server refused, in milliseconds. */
const refusedForMs = 10_000;

const healthReconciler: ObjectReconciler<HealthSnapshot, HealthVerdict> = {
  name,
  refusedForMs,
  observe,
  decide,
  // The Event about a write follows it.
  record: async () => "told",
  carryOut,
};

/** Throws ClusterError where trying again later can help. */
export function reconcile(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  return reconcileObject(context, healthReconciler, key);
}
