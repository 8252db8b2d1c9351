/** Invariant L1: what is still to be done in a world at peace. */
import type { NamespacedMetadata, StoredPod } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import { isTerminating, isUp, readReservations, revisionOf, wantedRevision } from "./raw.ts";

export interface Peace {
  readonly namespace: string;
  /** True for a StatefulSet that Sluice does not roll. */
  readonly isLoose: (name: string) => boolean;
  /** StatefulSets that a user is about to make again. */
  readonly absent: readonly string[];
}

/** What a StatefulSet still lacks in the end; undefined if every rollout has ended. */
export function unrolledOf(world: World, { namespace, isLoose, absent }: Peace): string | undefined {
  if (absent.length > 0) return `${absent.join(", ")} is not made again`;
  for (const { metadata, spec, status } of world.store.list("statefulsets", { namespace }).items) {
    if (status.observedGeneration !== metadata.generation) return `${metadata.name} is behind`;
    const pods = [...world.store.ownedBy("pods", metadata.uid)];
    if (pods.length !== spec.replicas) return `${metadata.name} has ${pods.length} of ${spec.replicas} pods`;
    const late = pods.find((pod) => revisionOf(pod) !== status.updateRevision || !isUp(pod));
    if (late !== undefined && !(isLoose(metadata.name) && isUp(late)))
      return `pod ${late.metadata.name} is not a ready pod of the wanted revision`;
    if (status.currentRevision !== status.updateRevision && !isLoose(metadata.name))
      return `${metadata.name} has not recorded its revision`;
  }
  return undefined;
}

/** The pod that a user drains, as long as it has not gone. */
export function undrainedOf(world: World, drained: StoredPod | undefined): string | undefined {
  const left = drained === undefined ? undefined : world.store.find("pods", drained.metadata);
  return left !== undefined && left.metadata.uid === drained?.metadata.uid
    ? `pod ${left.metadata.name} is not drained`
    : undefined;
}

const keptFor = ["sluice.dev/last-removal", "sluice.dev/last-downscales"];

/** What a ledger still holds in the end. */
export function unsettledOf(world: World, namespace: string, ledgers: readonly string[]): string | undefined {
  for (const name of ledgers) {
    const lease = world.store.find("leases", { namespace, name });
    if (lease === undefined) continue;
    const { "sluice.dev/claims": claims = "", "sluice.dev/group": group, ...kept } = lease.metadata.annotations ?? {};
    // No function reads the ledger of a group without a StatefulSet, and its contents block no other group.
    const { items } = world.store.list("statefulsets", { namespace });
    const isLeft = items.every(({ metadata }) => metadata.labels?.["rollout-group"] !== group);
    // Such a ledger is deleted; one that records the last removal is kept for a week.
    const isKept = isLeft && keptFor.some((key) => kept[key] !== undefined);
    if (!isKept && readReservations(lease)?.length !== 0) return `the ledger ${name} holds reservations`;
    if (isLeft) continue;
    if (claims !== "") return `the ledger ${name} holds a claim: ${claims}`;
  }
  return undefined;
}

/** A pod as a line of the history. */
export function describePod(world: World, key: Pick<NamespacedMetadata, "namespace" | "name">): string {
  const { name } = key;
  const pod = world.store.find("pods", key);
  if (pod === undefined) return `${name} is gone`;
  const { uid, resourceVersion } = pod.metadata;
  const state = isTerminating(pod) ? "terminating" : isUp(pod) ? "Ready" : "not ready";
  return `${name} ${uid.slice(0, 8)} ${revisionOf(pod)}: ${state} (at ${resourceVersion})`;
}

/** A StatefulSet as a line of the history. */
export function describeSet(world: World, key: Pick<NamespacedMetadata, "namespace" | "name">): string {
  const set = world.store.find("statefulsets", key);
  if (set === undefined) return `${key.name} is gone`;
  const { metadata, spec } = set;
  const group = metadata.labels?.["rollout-group"] ?? "no group";
  const state = isTerminating(set) ? ", being deleted" : "";
  return `${key.name} of ${group}: ${spec.replicas} replicas of ${wantedRevision(set) ?? "?"}${state} (at ${metadata.resourceVersion})`;
}
