import { questionEntries } from "../shared/annotations/health.ts";
import * as suspension from "../shared/annotations/suspension.ts";
import {
  claims,
  lastDownscales,
  ledgerEntries,
  rolloutMaxUnavailable,
  suspensionTimes,
  verdicts,
} from "../shared/annotations/table.ts";
import type { FunctionDefinition } from "../shared/contract/definition.ts";
import { reconcileClaims } from "../shared/reconcile/reconcile-claims.ts";
import { resizingNeeds } from "../shared/scaling/resize.ts";
import { keysOfPvc, listKeys } from "../shared/suspension/reading.ts";
import { suspensionNeeds } from "../shared/suspension/writing.ts";
import { claimedNeed, scheduleOfClaims } from "../shared/transaction/claims.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { guards } from "./guards.ts";
import { name, settings } from "./observe.ts";
import { suspending } from "./reconcile.ts";

/** Takes the pods of volumes that are to be suspended, and brings them back with the same volumes until those are removed. */
export const suspendGroup: FunctionDefinition<GroupKey> & { readonly settings: typeof settings } = {
  name,
  concern: "take the pods of volumes that are to be suspended, zone by zone, and bring them back on demand",
  guards,
  keyedBy: "groups",
  watches: [{ resource: "persistentvolumeclaims", keysOf: keysOfPvc }],
  listKeys,
  schedule: scheduleOfClaims(name),
  needs: [
    ...resizingNeeds,
    claimedNeed,
    ...suspensionNeeds,
    { group: "", resource: "pods", verbs: ["delete"] },
    { group: "policy", resource: "poddisruptionbudgets", verbs: ["list"] },
  ],
  reads: [
    suspension.suspendDuration,
    suspension.removalMode,
    suspension.waitBetweenRemovals,
    rolloutMaxUnavailable,
    ...questionEntries,
    ...suspension.leavingEntries,
    ...suspension.stateEntries,
  ],
  writes: [
    ...[...ledgerEntries, claims],
    lastDownscales,
    ...suspensionTimes,
    verdicts,
    suspension.drainedAt,
    suspension.volumeZone,
    ...suspension.stateEntries,
    suspension.suspended,
  ],
  settings,
  finalizers: [{ name: suspension.volumeHold, setting: settings.volumeHold }],
  reconcile: (context, key, trigger) => reconcileClaims(context, suspending, key, trigger),
};
