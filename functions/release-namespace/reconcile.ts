/** One pass over a namespace. */
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { reportReconcile } from "../shared/reconcile/report-look.ts";
import { actWithinMs, release } from "./act.ts";
import { decide } from "./decide.ts";
import { name, observe, ours } from "./observe.ts";

/** So many objects are written at one time. */
const atOnce = 16;

/** Throws ClusterError where trying again later can help, having tried every object. */
export async function run(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  const notAfterMs = context.cluster.monotonicMs() + actWithinMs;
  const { releases, requeueAfterMs, ...said } = decide(await observe(context, key), ours);
  const step = releases.length === 0 ? undefined : { kind: "release" };
  reportReconcile(context, name, key, { ...said, step });
  const failures: unknown[] = [];
  for (let first = 0; context.mode === "act" && first < releases.length; first += atOnce) {
    const batch = releases.slice(first, first + atOnce).map((one) => release(context, key, one, notAfterMs));
    for (const one of await Promise.allSettled(batch)) if (one.status === "rejected") failures.push(one.reason);
  }
  if (failures.length > 0) throw failures[0];
  return { requeueAfterMs, acting: undefined };
}
