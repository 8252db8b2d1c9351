import { questionEntries } from "../shared/annotations/health.ts";
import * as scaling from "../shared/annotations/scaling.ts";
import { claims, ledgerEntries, rolloutGroup, rolloutMaxUnavailable, verdicts } from "../shared/annotations/table.ts";
import { type FunctionDefinition, listGroupKeys } from "../shared/contract/definition.ts";
import { groupOfStatefulSet } from "../shared/contract/keys.ts";
import { reconcileClaims } from "../shared/reconcile/reconcile-claims.ts";
import { resizingNeeds } from "../shared/scaling/resize.ts";
import { claimedNeed, scheduleOfClaims } from "../shared/transaction/claims.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { guards } from "./guards.ts";
import { name } from "./observe.ts";
import { delayedDownscale } from "./reconcile.ts";

/** Tells pods long before they leave, and makes their StatefulSet smaller when they have known for the delay. */
export const prepareDelayedDownscale: FunctionDefinition<GroupKey> = {
  name,
  concern: "tell pods long before they leave, and make their zone smaller when they have known for its delay",
  guards,
  keyedBy: "groups",
  // No watch reports mirrored objects: the sweep, and the reconciles between two sweeps, read them.
  watches: [{ resource: "statefulsets", selector: rolloutGroup, keysOf: groupOfStatefulSet }],
  listKeys: listGroupKeys,
  schedule: scheduleOfClaims(name),
  needs: [...resizingNeeds, claimedNeed],
  kindNeeds: [{ list: "mirrored", subresource: "scale", verbs: ["get"] }],
  reads: [
    rolloutGroup,
    scaling.delayedDownscale,
    scaling.prepareDelayedDownscaleUrl,
    ...scaling.followingEntries,
    rolloutMaxUnavailable,
    ...questionEntries,
  ],
  writes: [...ledgerEntries, claims, verdicts],
  reconcile: (context, key, trigger) => reconcileClaims(context, delayedDownscale, key, trigger),
};
