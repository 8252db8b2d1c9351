/** Removes a reservation from a ledger by the rules of every function, or says why it cannot. */

import { getStatefulSet } from "../../functions/shared/cache/listing.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { dropAfterMs, maxConflicts } from "../../functions/shared/ledger/reservation.ts";
import { changeOf } from "../../functions/shared/transaction/claims.ts";
import { isConflict } from "../../functions/shared/transaction/ledger-copy.ts";
import { podNameOf } from "../../functions/shared/workloads/pods.ts";
import type { ReleaseArguments } from "./commands.ts";
import { createShadow, type Inspection, readInspection } from "./inspection.ts";
import { abandonedFromMs, outlook, placeOf, type Situation } from "./reservations.ts";
import { formatSpan } from "./span.ts";

/** Nothing was released, and the message gives the reason. */
export class NotReleased extends Error {}

interface ReleaseDecision {
  readonly because: string;
  /** Set if it may not be released now. `possibleInMs`: the least time until it may; Infinity if it never may. */
  readonly blocked?: { readonly kind: string; readonly possibleInMs: number };
}

/** How often the plugin reads the group while it waits for the end of a reservation. */
const pollGroupEveryMs = 2_000;

/**
 * Releases the reservation of a pod, and resolves to a message about what was done. `onWait` gets what it waits for, once for
 * each reason.
 *
 * It goes by a conditional write (rule R3), when it has settled (R6), when it is abandoned (R10), or when its StatefulSet is
 * gone and no function can act on it any more. Throws {@link NotReleased}, LedgerUnreadable, ClusterError.
 */
export async function release(
  cluster: Cluster,
  namespace: string,
  { group, pod, wait, dryRun }: ReleaseArguments,
  onWait: (message: string) => void,
): Promise<string> {
  let reported: string | undefined;
  for (let conflicts = 0; conflicts < maxConflicts; ) {
    const inspection = await readInspection(createShadow(cluster, namespace), { namespace, group });
    const situation = find(inspection, pod);
    if (situation === undefined) return describeUnreserved(inspection, pod, reported !== undefined);
    const { because, blocked } = await decide(cluster, namespace, situation);
    const by = `${situation.reservation.by} reserved it ${formatSpan(inspection.nowMs - situation.reservation.stampMs)} ago`;
    const message = `${by}; ${because}`;
    if (blocked !== undefined) {
      if (!wait) throw new NotReleased(`${pod} is not released: ${message}`);
      if (reported !== blocked.kind) onWait(`${pod}: ${message}`);
      reported = blocked.kind;
      await cluster.sleep(Math.min(pollGroupEveryMs, blocked.possibleInMs));
      continue;
    }
    if (dryRun) return `${pod}: would be released: ${message}`;
    if (await write(cluster, inspection, situation)) return `${pod}: released: ${message}`;
    conflicts++;
  }
  throw new NotReleased(`${pod} is not released: others write the ledger all the time; try again`);
}

function find({ situations, unreadable }: Inspection, pod: string): Situation | undefined {
  if (unreadable !== undefined) throw new NotReleased(unreadable);
  return situations.find(({ reservation }) => podNameOf(reservation) === pod);
}

/** Throws {@link NotReleased} for a pod that has no reservation, unless this command has waited for its end. */
function describeUnreserved({ observed, situations, key }: Inspection, pod: string, hasWaited: boolean): string {
  if (hasWaited) return `${pod}: nothing is left to release; its reservation has ended by itself`;
  if (observed?.ledger.kind === "imagined")
    throw new NotReleased(`${key.group} has no ledger in namespace ${key.namespace}, so nothing is reserved`);
  const names = situations.map(({ reservation }) => podNameOf(reservation));
  const reserved =
    names.length === 0
      ? "nothing is"
      : `reserved are ${names.slice(0, 10).join(", ")}${names.length > 10 ? ", …" : ""}`;
  throw new NotReleased(`${pod} is not reserved in the ledger ${observed?.ledger.name}: ${reserved}`);
}

/** Whether a reservation may be removed now; otherwise when it may, and what would settle it. */
async function decide(cluster: Cluster, namespace: string, situation: Situation): Promise<ReleaseDecision> {
  const { reservation, standing, nowMs } = situation;
  if (standing === "settled") return { because: "it has settled" };
  if (standing === "abandoned") return { because: "no function can act on it any more, and its pod is still there" };
  const possibleInMs = abandonedFromMs(reservation) - nowMs;
  const place = placeOf(situation);
  const name = reservation.statefulSet;
  const isGone = situation.workload === undefined && (await getStatefulSet(cluster, { namespace, name })) === undefined;
  if (isGone && possibleInMs <= 0)
    return { because: `no function can act on it any more, and its StatefulSet ${name} is gone` };
  const kind = `${place} ${isGone}`;
  if (isGone || place === "reserved") {
    const possible = `it can be released in ${formatSpan(possibleInMs)}, at ${new Date(abandonedFromMs(reservation)).toISOString()}`;
    const until = place === "reserved" ? `${possible}, if its pod is still there then` : possible;
    const because = `until ${formatSpan(dropAfterMs)} after that its function may still act on it, and ${until}. By itself: ${outlook(situation)}`;
    return { because, blocked: { kind, possibleInMs } };
  }
  const because = `the pod counts as down with or without its reservation, so a release changes nothing. By itself: ${outlook(situation)}`;
  return { because, blocked: { kind, possibleInMs: Number.POSITIVE_INFINITY } };
}

/** False when another client wrote the ledger meanwhile. Throws ClusterError. */
async function write(
  cluster: Cluster,
  { context, observed }: Inspection,
  { reservation, pod }: Situation,
): Promise<boolean> {
  if (observed?.ledger.kind !== "stored") return false;
  const { ledger, view } = observed;
  // Nothing else settles with this write, and no zone begins to count, because that is left to the functions.
  const { members, refusals } = ledger;
  const change = changeOf(observed, {
    reservations: ledger.reservations.filter((other) => other !== reservation),
    // Rule R8. The pod that was read by itself also counts: from now on no function may decide on a view that does not know it.
    seenThrough: Math.max(view.seenThrough, pod?.resourceVersion ?? 0),
    members,
    refusals,
  });
  try {
    await context.protocol.writeLedger(cluster, ledger, change);
    return true;
  } catch (error) {
    if (isConflict(error)) return false;
    throw error;
  }
}
