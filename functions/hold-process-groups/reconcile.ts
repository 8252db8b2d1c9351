/** One pass over a FoundationDBCluster. */
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { reportReconcile } from "../shared/reconcile/report-look.ts";
import { type ClusterAttempt, carryOut, recordEvents } from "./act.ts";
import { decide } from "./decide.ts";
import { name, observe } from "./observe.ts";

/** A removal takes three looks. More come together only while others write what we write. */
const mostLooks = 10;
/** So long after a look was begun something is done by it, in milliseconds. */
const actWithinMs = 15_000;
/** How soon to look again where others wrote what we write, in milliseconds. */
const contendedMs = 500;
/** A write that was refused is tried again after this, in milliseconds. */
const refusedForMs = 15_000;

const nothing: ReconcileResult = { requeueAfterMs: undefined, acting: undefined };

/** Step after step, each on a fresh look, until there is something to wait for. Throws ClusterError. */
export async function run(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  let isProtectionRefused = false;
  for (let looks = 0; looks < mostLooks; looks++) {
    const notAfterMs = context.cluster.monotonicMs() + actWithinMs;
    const observed = await observe(context, key);
    const verdict = decide({ ...observed.snapshot, isProtectionRefused });
    reportReconcile(context, name, key, verdict);
    const looked: ClusterAttempt = { context, key, observed, verdict, notAfterMs };
    await recordEvents(looked);
    const requeueAfterMs = isProtectionRefused ? refusedForMs : verdict.requeueAfterMs;
    if (verdict.step === undefined || context.mode === "shadow") return { ...nothing, requeueAfterMs };
    // This process may have stood still: its look is too old to act on.
    const isLate = context.cluster.monotonicMs() > notAfterMs;
    const became = isLate ? "changed" : await carryOut(looked, verdict.step);
    if (became !== "refused") continue;
    const sentence = `the API server does not take a write: ${verdict.sentence}`;
    reportReconcile(context, name, key, { ...verdict, guard: "owner-refused", sentence });
    // Blocks keep volumes without our finalizer, too.
    if (verdict.step.kind !== "protect") return { ...nothing, requeueAfterMs: refusedForMs };
    isProtectionRefused = true;
  }
  return { ...nothing, requeueAfterMs: contendedMs };
}
