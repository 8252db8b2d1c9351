import type { AdmissionDefinition } from "../shared/admission/definition.ts";
import * as scaling from "../shared/annotations/scaling.ts";
import { claims, lastApplied, lastDownscales, ledgerEntries, rolloutGroup } from "../shared/annotations/table.ts";
import { mayBeDownscale } from "../shared/scaling/downscale-review.ts";
import { leasesNeed } from "../shared/transaction/ledger-copy.ts";
import { createHandler } from "./act.ts";
import { guards } from "./guards.ts";
import { name, settings, usualTrackerName } from "./observe.ts";

const path = "/admission/prepare-downscale";

/** Asks each pod that a downscale takes whether it may leave, and keeps time between the zones of a group. */
export const prepareDownscale: AdmissionDefinition & { readonly settings: typeof settings } = {
  name,
  concern: "tell pods before a downscale takes them, and keep time between zones",
  guards,
  needs: [
    { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    { group: "", resource: "configmaps", verbs: ["get"], names: [usualTrackerName] },
    leasesNeed("get", "create", "patch"),
    { group: "", resource: "events", verbs: ["create"] },
  ],
  reads: [
    rolloutGroup,
    ...[scaling.prepareDownscale, scaling.prepareDownscalePath, scaling.prepareDownscalePort],
    scaling.unpreparedPods,
    scaling.minTimeBetweenZonesDownscale,
    scaling.lastDownscale,
    scaling.noDownscale,
    lastApplied,
  ],
  writes: [...ledgerEntries, claims, lastDownscales],
  settings,
  paths: [path],
  registration: {
    // It never changes an object. The API server asks mutating webhooks first, also before those that may refuse.
    kind: "Mutating",
    webhook: "prepare-downscale",
    path,
    rule: {
      apiGroups: ["apps"],
      apiVersions: ["v1"],
      operations: ["UPDATE"],
      resources: ["statefulsets", "statefulsets/scale"],
    },
    // It calls pods, but leaves no trace of a dry run (rule R16).
    sideEffects: "NoneOnDryRun",
    failurePolicy: "Fail",
    timeoutSeconds: 10,
    // While the webhook is down, the API server denies every matched request, so that only possible downscales match.
    matchConditions: [{ name: "may-be-a-downscale", expression: mayBeDownscale }],
  },
  // The API server stores up to 1.5 MiB and takes up to 3: an update brings both, and who asks.
  bodyLimitBytes: 5 * 1024 * 1024,
  whenBroken: "closed",
  readsViews: true,
  open: createHandler,
};
