import {
  claims,
  ledgerGroup,
  reservations,
  rolloutGroup,
  rolloutMaxUnavailable,
  rolloutPaused,
  verdicts,
} from "../shared/annotations/table.ts";
import { escapeTexts } from "../shared/base/escape-control.ts";
import { limitReads } from "../shared/base/limit-reads.ts";
import type { StatusContext, StatusDefinition } from "../shared/contract/definition.ts";
import type { Status } from "../shared/contract/status.ts";
import { decide } from "./decide.ts";
import { guards } from "./guards.ts";
import { createObserver, name } from "./observe.ts";
import type { StatusSnapshot } from "./snapshot.ts";

/** One observation serves the GETs of a second, and no GET waits longer than two for it. */
const observationLimits = { everyMs: 1_000, waitMs: 2_000 };

/** Shows what all served groups do, and what needs a person. */
export const showStatus: StatusDefinition = {
  name,
  concern: "show what all served groups do, why they wait, and what needs a person",
  guards,
  // Pods of evictions that wait, and suspended volumes, are read only where functions are served that have the rights to that.
  needs: [
    { group: "", resource: "pods", verbs: ["list", "watch"] },
    { group: "apps", resource: "statefulsets", verbs: ["list", "watch"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    { group: "coordination.k8s.io", resource: "leases", verbs: ["list"] },
    { group: "", resource: "events", verbs: ["list"] },
  ],
  reads: [rolloutGroup, rolloutMaxUnavailable, rolloutPaused, ledgerGroup, reservations, claims, verdicts],
  writes: [],
  open: openStatus,
};

function openStatus(context: StatusContext): () => Promise<Status | undefined> {
  const observer = createObserver(context);
  let seen: StatusSnapshot | undefined;
  let decided: { readonly snapshot: StatusSnapshot; readonly status: Status } | undefined;
  const refresh = limitReads(context.cluster, observationLimits, async () => {
    seen = await observer.observe();
  });
  return async () => {
    await refresh();
    if (seen === undefined) return undefined;
    // While an observation takes longer, the last one is shown, and says so.
    const unansweredSinceMs = observer.unansweredSinceMs();
    if (seen.unansweredSinceMs !== unansweredSinceMs) seen = { ...seen, unansweredSinceMs };
    if (decided?.snapshot !== seen) decided = { snapshot: seen, status: escapeTexts(decide(seen)) };
    return decided.status;
  };
}
