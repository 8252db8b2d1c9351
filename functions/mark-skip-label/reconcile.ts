/** One pass over an owner, or over all owners of a namespace that is being deleted. */
import { mapLimit } from "../shared/base/map-limit.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { reportReconcile } from "../shared/reconcile/report-look.ts";
import { carryOut, type OwnerAttempt, recordEvents, tell } from "./act.ts";
import { actWithinMs, decide } from "./decide.ts";
import { isEnding, listKeys, name, observe, refusedForMs } from "./observe.ts";

/** A deletion takes four looks. More come together only while others write what we write. */
const mostLooks = 10;
/** Of a namespace that is being deleted, so many are looked at at one time. */
const ownersAtOnce = 16;
/** How soon to look again where others wrote what we write, in milliseconds. */
const contendedMs = 500;
/** How soon to look again at objects whose changes do not wake this function, in milliseconds. */
const unwatchedRequeueMs = 15_000;

/** Throws ClusterError where trying again later can help. */
export async function run(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  if (key.resource !== "namespaces") return runOwner(context, key);
  const { namespaces, cluster } = context;
  const isServed = namespaces === undefined || namespaces.includes(key.name);
  if (!isServed || !(await isEnding(cluster, key.name))) return nothing;
  const owners = await listKeys(context, key.name);
  const outcomes = await mapLimit(owners, ownersAtOnce, (owner) => runOwner(context, owner));
  const requeues = outcomes.flatMap(({ requeueAfterMs }) => (requeueAfterMs === undefined ? [] : [requeueAfterMs]));
  return requeues.length === 0 ? nothing : { ...nothing, requeueAfterMs: Math.min(...requeues) };
}

const nothing: ReconcileResult = { requeueAfterMs: undefined, acting: undefined };

/** Step after step, each on a fresh look, until there is something to wait for. */
async function runOwner(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  for (let looks = 0; looks < mostLooks; looks++) {
    const notAfterMs = context.cluster.monotonicMs() + actWithinMs;
    const observed = await observe(context, key);
    const verdict = decide(observed.snapshot);
    const { object } = observed;
    reportReconcile(context, name, key, verdict);
    if (object === undefined) return nothing;
    const looked: OwnerAttempt = { context, key, observed: { ...observed, object }, verdict, notAfterMs };
    const became = context.mode === "shadow" ? "idle" : await act(looked);
    if (became === "refused") {
      const sentence = `the API server does not take a write to it: ${verdict.sentence}`;
      reportReconcile(context, name, key, { ...verdict, guard: "owner-refused", sentence });
      return { ...nothing, requeueAfterMs: refusedForMs };
    }
    if (became === "idle") return { ...nothing, requeueAfterMs: verdict.requeueAfterMs ?? requeueOf(key, looked) };
  }
  return { ...nothing, requeueAfterMs: contendedMs };
}

/** What is told is told before anything is done: a release after the deadline has been said aloud (invariant M1). */
async function act(looked: OwnerAttempt): Promise<"done" | "changed" | "refused" | "idle"> {
  const { step, isTold } = looked.verdict;
  if (isTold) {
    const told = await tell(looked);
    if (told !== "told") {
      if (told === "done") await recordEvents(looked);
      return told;
    }
  }
  if (step === undefined) {
    await recordEvents(looked);
    return "idle";
  }
  // The process that wrote the status may have ended before it sent its Events.
  if (looked.verdict.guard === "deadline-passed") await recordEvents(looked);
  // This process may have stood still: its look is too old to act on.
  if (looked.context.cluster.monotonicMs() > looked.notAfterMs) return "changed";
  const became = await carryOut(looked, step);
  if (became === "done") await recordEvents(looked);
  return became;
}

function requeueOf({ resource }: ObjectRef, { observed }: OwnerAttempt): number | undefined {
  return resource === "rabbitmqclusters" || !observed.snapshot.owner?.isHeld ? undefined : unwatchedRequeueMs;
}
