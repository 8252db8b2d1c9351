/**
 * Another function that shares the ledger: it takes any pod it likes, as evictions and restarts do. A rollout alone always
 * goes for the same pod next, and so hides what the protocol is for; two functions that want different pods do not.
 */

import { countDown, isUnsettled, type Zone } from "../../functions/shared/group/zones.ts";
import { finishAfterMs } from "../../functions/shared/ledger/reservation.ts";
import type { GroupKey } from "../../functions/shared/objects/statefulsets.ts";
import { type FunctionDefinition, listGroupKeys } from "../../functions/shared/pass/definition.ts";
import type { Observed } from "../../functions/shared/pass/observation.ts";
import { perform } from "../../functions/shared/pass/perform.ts";
import type { Target } from "../../functions/shared/pass/target.ts";
import { take, type Verdict, wait } from "../../functions/shared/pass/verdict.ts";
import { groupOfPod } from "../../functions/shared/views/keys.ts";
import type { Draw } from "./draw.ts";

const name = "recycle-pods";

/** A function that keeps taking pods within the budget while `isActive`, about every `everyMs`. */
export function createRecycler(draw: Draw, isActive: () => boolean, everyMs: number): FunctionDefinition<GroupKey> {
  const again = () => wait("between-pods", "the next pod goes later", { recheckMs: draw.between(0, 2 * everyMs) });

  function decide({ zones, nowMs, open }: Observed): Verdict<Target> {
    if (!isActive()) return take([], "all done");
    const members = new Set(zones.map(({ statefulSet }) => statefulSet.name));
    if (open.some((reservation) => !members.has(reservation.statefulSet))) return again();
    const unsettled = zones.filter(isUnsettled);
    const zone = unsettled[0] ?? draw.pick(zones);
    if (zone === undefined || unsettled.length > 1) return again();
    const room = zone.statefulSet.maxUnavailable - countDown(zone);
    const unfinished = room >= 0 ? zone.pods.filter((pod) => isUnfinished(zone, pod, nowMs)) : [];
    const healthy = room > 0 ? zone.pods.filter((pod) => !zone.down.has(pod.ordinal)) : [];
    const next = [...unfinished, ...(healthy.length > 0 ? [draw.pick(healthy)] : [])];
    if (next.length === 0) return again();
    const targets = next.map((pod): Target => ({ action: "delete", statefulSet: zone.statefulSet, pod }));
    return take(targets, "recycling", { zone: zone.statefulSet.name, recheckMs: draw.between(0, 2 * everyMs) });
  }

  return {
    name,
    concern: "take pods that nobody else would take now",
    keyedBy: "groups",
    wokenBy: [{ resource: "pods", keysOf: groupOfPod }],
    listKeys: listGroupKeys,
    needs: [],
    reads: [],
    writes: [],
    run: (context, key, wake) => perform(context, { name, observe: (observed) => observed, decide }, key, wake),
  };
}

function isUnfinished({ reserved }: Zone, pod: Zone["pods"][number], nowMs: number): boolean {
  const reservation = reserved.get(pod.ordinal);
  return (
    reservation?.by === name &&
    reservation.uid === pod.uid &&
    !pod.terminating &&
    nowMs - reservation.stampMs >= finishAfterMs
  );
}
