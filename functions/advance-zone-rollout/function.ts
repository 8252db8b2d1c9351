import * as vocabulary from "../shared/objects/vocabulary.ts";
import type { Context, FunctionDefinition } from "../shared/pass/definition.ts";
import { type Gate, perform } from "../shared/pass/perform.ts";
import { sweepLedgers } from "../shared/pass/sweep-ledgers.ts";
import { decide, type Group } from "./decide.ts";
import { name, observe } from "./observe.ts";

const gateOf = ({ allowUnsupported = false }: Context): Gate<Group> => ({
  name,
  observe: (observed) => observe(observed, allowUnsupported),
  decide,
});

/** Replaces the outdated pods of a group's StatefulSets, zone by zone, within each zone's budget. */
export const advanceZoneRollout: FunctionDefinition = {
  name,
  concern: "replace outdated pods zone by zone",
  wokenBy: ["statefulsets", "pods"],
  needs: [
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    { group: "apps", resource: "statefulsets/status", verbs: ["patch"] },
    { group: "", resource: "pods", verbs: ["get", "list", "watch", "delete"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    { group: "coordination.k8s.io", resource: "leases", verbs: ["get", "list", "create", "patch", "delete"] },
    { group: "", resource: "events", verbs: ["create"] },
  ],
  reads: [
    vocabulary.rolloutGroup,
    vocabulary.rolloutMaxUnavailable,
    vocabulary.rolloutPaused,
    vocabulary.controllerRevisionHash,
  ],
  writes: [
    vocabulary.ledgerGroup,
    vocabulary.settledThrough,
    vocabulary.membersThrough,
    vocabulary.members,
    vocabulary.reservations,
    vocabulary.refusals,
    vocabulary.verdicts,
  ],
  run: (context, key, wake) => perform(context, gateOf(context), key, wake),
  sweep: (context, groups) =>
    sweepLedgers(context, groups, (key) => perform(context, gateOf(context), key, { sweep: true }), name),
};
