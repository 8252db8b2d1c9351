/** One reconcile of a node: step after step, each on a fresh observation. */
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { type ObjectReconciler, reconcileObject } from "../shared/reconcile/reconcile-object.ts";
import { carryOut, recordVerdict } from "./act.ts";
import { decide } from "./decide.ts";
import { refusableSteps } from "./deletion.ts";
import { type FenceObservation, name, observe } from "./observe.ts";
import type { FenceVerdict } from "./snapshot.ts";

/** Steps that wait for a right where the API server refuses them. */
const awaited = [...refusableSteps, "unmark-machine"] as const;
/** How soon to try again what the API server refused, in milliseconds. */
const refusedForMs = 10_000;

const fenceReconciler: ObjectReconciler<FenceObservation, FenceVerdict> = {
  name,
  refusedForMs,
  // A slot that stays is free all the same once its record is gone, and after 10 minutes.
  dispensable: ["release-slot", "return-claims", ...awaited],
  observe,
  decide({ snapshot }, refused) {
    const isRefused = awaited.some((kind) => refused.has(kind));
    const isReturnRefused = refused.has("return-claims");
    return decide({ ...snapshot, isRefused, isReturnRefused }, refused.has("release-slot"));
  },
  record: recordVerdict,
  carryOut,
};

/** Throws ClusterError where trying again later can help. */
export function reconcile(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  return reconcileObject(context, fenceReconciler, key);
}
