/** One reconcile of a FoundationDBCluster. */
import type { ObjectReconciler } from "../shared/reconcile/reconcile-object.ts";
import { carryOut, recordEvents } from "./act.ts";
import { type ClusterVerdict, decide } from "./decide.ts";
import { type ClusterObservation, name, observe } from "./observe.ts";

export const clusterReconciler: ObjectReconciler<ClusterObservation, ClusterVerdict> = {
  name,
  refusedForMs: 15_000,
  // Blocks also keep volumes without our finalizer.
  dispensable: ["protect"],
  observe,
  decide: ({ snapshot }, refused) => decide({ ...snapshot, isProtectionRefused: refused.has("protect") }),
  async record(attempt) {
    await recordEvents(attempt);
    return "told";
  },
  carryOut,
};
