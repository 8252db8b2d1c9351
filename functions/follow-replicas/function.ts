import { questionEntries } from "../shared/annotations/health.ts";
import * as scaling from "../shared/annotations/scaling.ts";
import {
  claims,
  lastDownscales,
  ledgerEntries,
  rolloutGroup,
  rolloutMaxUnavailable,
  verdicts,
} from "../shared/annotations/table.ts";
import { type FunctionDefinition, listGroupKeys } from "../shared/contract/definition.ts";
import { groupOfStatefulSet } from "../shared/contract/keys.ts";
import { reconcileClaims } from "../shared/reconcile/reconcile-claims.ts";
import { resizingNeeds } from "../shared/scaling/resize.ts";
import { claimedNeed, scheduleOfClaims } from "../shared/transaction/claims.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { following, ownStatusGroup } from "./act.ts";
import { guards } from "./guards.ts";
import { name } from "./observe.ts";

/** Gives StatefulSets the size of their leader, or of the object that they mirror. */
export const followReplicas: FunctionDefinition<GroupKey> = {
  name,
  concern: "give StatefulSets the size of the one that they follow, or of the object that they mirror",
  guards,
  keyedBy: "groups",
  // A mirrored object is read every few seconds, and by the sweep.
  watches: [{ resource: "statefulsets", selector: rolloutGroup, keysOf: groupOfStatefulSet }],
  listKeys: listGroupKeys,
  schedule: scheduleOfClaims(name),
  needs: [...resizingNeeds, claimedNeed],
  kindNeeds: [
    { list: "mirrored", subresource: "scale", verbs: ["get"] },
    {
      list: "mirrored",
      subresource: "status",
      verbs: ["patch"],
      changes: ["status.replicas"],
      exceptGroups: [ownStatusGroup],
    },
  ],
  reads: [
    rolloutGroup,
    ...scaling.followingEntries,
    scaling.mirrorWriteBack,
    scaling.delayedDownscale,
    scaling.prepareDownscale,
    lastDownscales,
    rolloutMaxUnavailable,
    ...questionEntries,
  ],
  writes: [...ledgerEntries, claims, verdicts],
  reconcile: (context, key, trigger) => reconcileClaims(context, following(), key, trigger),
};
