/** One pass over a group: claims that are over go, and sizes follow. */
import type { GroupKey, StatefulSet } from "../shared/objects/statefulsets.ts";
import { claimsBy, lookAtLedger } from "../shared/pass/claim-writing.ts";
import type { Context, Outcome } from "../shared/pass/definition.ts";
import { Conflict, forgetLedger, knownLedger, waitForLedger } from "../shared/pass/ledger-access.ts";
import type { Observed } from "../shared/pass/observation.ts";
import { type Gate, perform } from "../shared/pass/perform.ts";
import { actOn, endClaims, memoryOf, refusalsOf, telling, writeBack } from "./act.ts";
import { decide, type FollowSnapshot, type Resizing } from "./decide.ts";
import { findLed, isFollowing, name, readScales } from "./observe.ts";

const nothing: Outcome = { recheckMs: undefined, acting: undefined };

/** Throws ClusterError where trying again later can help. */
export async function run(context: Context, key: GroupKey, wake: { readonly sweep: boolean }): Promise<Outcome> {
  if (!(await concerns(context, key, wake.sweep))) return nothing;
  try {
    await endOwn(context, key, wake.sweep);
  } catch (error) {
    forgetLedger(context.memoryOf(key));
    // What is the matter with a ledger that cannot be used is said by the pass itself.
    if (error instanceof Conflict) context.reporter.conflict(key, name);
    else if (waitForLedger(error) === undefined) throw error;
  }
  return perform(context, gate, key, wake);
}

/** Whether a StatefulSet of the group is led, or a claim of ours is left of one that was. Throws ClusterError. */
async function concerns(context: Context, key: GroupKey, sweep: boolean): Promise<boolean> {
  const { views, cluster, protocol } = context;
  const view = await views.read(key, { settledThrough: 0, permitSinceMs: undefined, consistent: false });
  if (view.statefulSets.some(isFollowing)) return true;
  if (view.statefulSets.length === 0) return false;
  try {
    const known = knownLedger(context, context.memoryOf(key));
    const ledger = known ?? (sweep ? await protocol.readLedger(cluster, key) : undefined);
    return ledger?.claims.some((claim) => claim.isKnown && claim.by === name) ?? false;
  } catch (error) {
    // Whoever decides by it says so.
    if (waitForLedger(error) !== undefined) return false;
    throw error;
  }
}

async function endOwn(context: Context, key: GroupKey, sweep: boolean): Promise<void> {
  if (context.mode === "shadow") return;
  if (sweep) forgetLedger(context.memoryOf(key));
  const known = knownLedger(context, context.memoryOf(key));
  if (known !== undefined && !known.claims.some((claim) => claim.isKnown && claim.by === name)) return;
  const look = await lookAtLedger(context, key);
  if (look !== undefined && look.young === undefined) await endClaims(context, look.observed);
}

const gate: Gate<FollowSnapshot, Resizing> = { name, telling, decide, actOn, observe };

async function observe(observed: Observed, context: Context): Promise<FollowSnapshot> {
  const { key, zones, departed, strayClaims, nowMs } = observed;
  const members: readonly StatefulSet[] = zones.map(({ statefulSet }) => statefulSet);
  const scales = await readScales(context.cluster, members);
  if (context.mode === "act") await writeBack(context, key, members, scales);
  return {
    group: key.group,
    nowMs,
    zones,
    departed,
    strayClaims,
    led: findLed(members, scales, nowMs),
    claims: claimsBy(observed, "scale-down", name),
    refused: refusalsOf(context, memoryOf(context, key)),
  };
}
