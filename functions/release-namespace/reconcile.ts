/** One pass over a namespace. */
import { mapLimit } from "../shared/base/map-limit.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { actOnLookWithinMs, reportObjectVerdict } from "../shared/reconcile/reconcile-object.ts";
import { release } from "./act.ts";
import { decide } from "./decide.ts";
import { name, observe, ours } from "./observe.ts";

/** So many objects are written at one time. */
const atOnce = 16;

/** Throws ClusterError where trying again later can help, having tried every object. */
export async function reconcile(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  const notAfterMs = context.cluster.monotonicMs() + actOnLookWithinMs;
  const { releases, requeueAfterMs, ...said } = decide(await observe(context, key), ours);
  const step = releases.length === 0 ? undefined : { kind: "release" };
  reportObjectVerdict(context, name, key, { ...said, step });
  if (context.mode === "act") await mapLimit(releases, atOnce, (one) => release(context, key, one, notAfterMs));
  return { requeueAfterMs, acting: undefined };
}
