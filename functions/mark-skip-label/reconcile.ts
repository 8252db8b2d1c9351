/** One reconcile of an owner, or of all owners in a namespace that is being deleted. */
import { mapLimit } from "../shared/base/map-limit.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { isNamespaceEnding } from "../shared/kubernetes/find.ts";
import { type ObjectReconciler, reconcileObject } from "../shared/reconcile/reconcile-object.ts";
import { carryOut, recordVerdict } from "./act.ts";
import { decide, type OwnerVerdict } from "./decide.ts";
import { labelRefusedForMs, listKeys, name, type OwnerObservation, observe } from "./observe.ts";

/** The most owners in a namespace that is being deleted that are reconciled at one time. */
const ownersAtOnce = 16;

/** Throws ClusterError if a later try can help. */
export async function reconcile(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  if (key.resource !== "namespaces") return reconcileObject(context, ownerReconciler, key);
  const { namespaces, cluster } = context;
  const isServed = namespaces === undefined || namespaces.includes(key.name);
  if (!isServed || !(await isNamespaceEnding(cluster, key.name))) return nothing;
  const owners = await listKeys(context, key.name);
  const outcomes = await mapLimit(owners, ownersAtOnce, (owner) => reconcileObject(context, ownerReconciler, owner));
  const requeues = outcomes.flatMap(({ requeueAfterMs }) => (requeueAfterMs === undefined ? [] : [requeueAfterMs]));
  return requeues.length === 0 ? nothing : { ...nothing, requeueAfterMs: Math.min(...requeues) };
}

const nothing: ReconcileResult = { requeueAfterMs: undefined, pendingActs: undefined };

const ownerReconciler: ObjectReconciler<OwnerObservation, OwnerVerdict> = {
  name,
  refusedForMs: labelRefusedForMs,
  observe,
  decide: ({ snapshot, requeueAfterMs }) => {
    const verdict = decide(snapshot);
    return { ...verdict, requeueAfterMs: verdict.requeueAfterMs ?? requeueAfterMs };
  },
  record: recordVerdict,
  carryOut,
};
