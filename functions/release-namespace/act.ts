/** What is done to one object: its volume is kept where that is asked for, and then it loses our finalizers. */

import type { Context } from "../shared/contract/context.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { reportWrite, sayRefusal, type WriteResult } from "../shared/reconcile/reconcile-object.ts";
import { retain } from "../shared/suspension/retain-volume.ts";
import { groupOfLoneStatefulSet } from "../shared/workloads/group-key.ts";
import type { FinalizerRelease } from "./decide.ts";
import { type HeldObject, name } from "./observe.ts";

/**
 * Under the uid and the revision that were read. What the API server refuses is said, and stays as it is. Throws ClusterError
 * where trying again later can help.
 */
export async function release(
  context: Context,
  key: ObjectRef,
  { held, finalizers, retains }: FinalizerRelease<HeldObject>,
  notAfterMs: number,
): Promise<WriteResult> {
  const { resource, object, pvc, shown } = held;
  const { name: itsName, namespace = "", uid, resourceVersion } = object.metadata;
  const act = { key, function: name, action: "release", object: itsName, reason: "its namespace is being deleted" };
  const write = async () => {
    if (retains && pvc !== undefined) {
      const group = groupOfLoneStatefulSet(pvc.name);
      await retain(context, name, { namespace, group }, pvc, notAfterMs);
    }
    const body = { metadata: { uid, resourceVersion, finalizers } };
    await context.cluster.patch(resource, { namespace, name: itsName }, body, { notAfterMs });
  };
  return reportWrite(context, act, write, (error) => {
    const sentence = `${shown} keeps our finalizer: ${sayRefusal(error)}. Take that away by hand`;
    context.reporter.problem(key, name, sentence, error);
  });
}
