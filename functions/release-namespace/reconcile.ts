/** One reconcile of a namespace: what has a finalizer of ours loses it, after its volume is kept where that is asked for. */
import { mapLimit } from "../shared/base/map-limit.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import {
  actOnReadWithinMs,
  describeRefusal,
  reportObjectVerdict,
  reportWrite,
  type WriteResult,
} from "../shared/reconcile/reconcile-object.ts";
import { retain } from "../shared/suspension/retain-volume.ts";
import { groupOfLoneStatefulSet } from "../shared/workloads/group-key.ts";
import { decide, type FinalizerRelease } from "./decide.ts";
import { name, observe } from "./observe.ts";

/** The most objects that are written at one time. */
const mostAtOnce = 16;

/** Throws ClusterError where trying again later can help, having tried every object. */
export async function reconcile(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  const notAfterMs = context.cluster.monotonicMs() + actOnReadWithinMs;
  const { releases, requeueAfterMs, ...verdict } = decide(await observe(context, key));
  const step = releases.length === 0 ? undefined : { kind: "release" };
  reportObjectVerdict(context, name, key, { ...verdict, step });
  if (context.mode === "act") await mapLimit(releases, mostAtOnce, (one) => release(context, key, one, notAfterMs));
  return { requeueAfterMs, pendingActs: undefined };
}

/**
 * Writes one object under the uid and the revision that were read. If the API server refuses the write, that is reported, and the
 * object stays as it is. Throws ClusterError where trying again later can help.
 */
async function release(
  context: Context,
  key: ObjectRef,
  { kept, finalizers }: FinalizerRelease,
  notAfterMs: number,
): Promise<WriteResult> {
  const { resource, object, pvc, shown, isKept } = kept;
  const { name: itsName, namespace = "", uid, resourceVersion } = object.metadata;
  const act = { key, function: name, action: "release", object: itsName, reason: "its namespace is being deleted" };
  const write = async () => {
    if (isKept && pvc !== undefined) {
      const group = groupOfLoneStatefulSet(pvc.name);
      await retain(context, name, { namespace, group }, pvc, notAfterMs);
    }
    const body = { metadata: { uid, resourceVersion, finalizers } };
    await context.cluster.patch(resource, { namespace, name: itsName }, body, { notAfterMs });
  };
  return reportWrite(context, act, write, (error) => {
    const message = `${shown} keeps our finalizer: ${describeRefusal(error)}. Take that away by hand`;
    context.reporter.problem(key, name, message, error);
  });
}
