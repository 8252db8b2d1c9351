/** Invariant L1: what keeps a world at peace from being done. */
import type { ObjectKey } from "../../../functions/shared/cluster.ts";
import { parsePod } from "../../../functions/shared/pods.ts";
import { ledgerName, parseLedger } from "../../../functions/shared/reservation.ts";
import type { GroupKey } from "../../../functions/shared/statefulsets.ts";
import type { StoredPod } from "../../world/objects.ts";
import type { World } from "../../world/world.ts";

/** A sentence, or undefined when everything has converged. `drained` is a pod that somebody drains until it has gone. */
export function missingOf(world: World, key: GroupKey, drained: StoredPod | undefined): string | undefined {
  const { namespace } = key;
  for (const { metadata, spec, status } of world.store.list("statefulsets", { namespace }).items) {
    if (status.observedGeneration !== metadata.generation) return `${metadata.name} is behind`;
    const pods = [...world.store.ownedBy("pods", metadata.uid)].map(parsePod);
    if (pods.length !== spec.replicas) return `${metadata.name} has ${pods.length} of ${spec.replicas} pods`;
    const late = pods.find((pod) => pod.revision !== status.updateRevision || pod.readySinceMs === undefined);
    if (late !== undefined) return `pod ${late.name} is not a ready pod of the wanted revision`;
    if (status.currentRevision !== status.updateRevision) return `${metadata.name} has not recorded its revision`;
  }
  const left = drained === undefined ? undefined : world.store.find("pods", drained.metadata);
  if (left !== undefined && left.metadata.uid === drained?.metadata.uid)
    return `pod ${left.metadata.name} is not drained`;
  const lease = world.store.find("leases", { namespace, name: ledgerName(key.group) });
  if (lease !== undefined && parseLedger(key, lease).reservations.length > 0) return "the ledger holds reservations";
  return undefined;
}

/** A pod for the history, in a line. */
export function describePod(world: World, key: ObjectKey): string {
  const { name } = key;
  const pod = world.store.find("pods", key);
  if (pod === undefined) return `${name} is gone`;
  const { uid, revision, terminating, readySinceMs, stuck } = parsePod(pod);
  const state = terminating ? "terminating" : readySinceMs === undefined ? `not ready ${stuck ?? ""}` : "Ready";
  return `${name} ${uid.slice(0, 8)} ${revision}: ${state} (at ${pod.metadata.resourceVersion})`;
}
