import { parking } from "../shared/annotations/parking.ts";
import { restartPhase } from "../shared/annotations/restart.ts";
import { volumeOwner, volumeZone } from "../shared/annotations/suspension.ts";
import * as table from "../shared/annotations/table.ts";
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
  // Pods of evictions that wait, suspended volumes and groups of other owners are read only where functions are served that have
  // the rights to that, and that make such groups.
  needs: [
    { group: "", resource: "pods", verbs: ["list", "watch"] },
    { group: "apps", resource: "statefulsets", verbs: ["list", "watch"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    { group: "coordination.k8s.io", resource: "leases", verbs: ["list"] },
    { group: "", resource: "events", verbs: ["list"] },
  ],
  reads: [
    ...[table.rolloutGroup, table.rolloutMaxUnavailable, table.rolloutPaused, restartPhase, parking],
    ...[volumeOwner, volumeZone, table.ledgerGroup, table.reservations, table.claims, table.verdicts],
  ],
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
