/** The suspended volumes of a namespace, or of all: for metrics and for the status. */

import { suspended } from "../annotations/suspension.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import { isRecovering, type Member } from "../volumes/members.ts";
import { findAll } from "../volumes/owners.ts";
import { type Pvc, parsePvc, valueIn } from "../volumes/pvc.ts";
import { parseSuspendableSet } from "../volumes/suspendable-set.ts";
import { durationNow } from "./time-left.ts";

export interface SuspendedVolume {
  readonly namespace: string;
  readonly name: string;
  /** The name of its StatefulSet; empty for one whose StatefulSet is gone. */
  readonly zone: string;
  readonly state: string;
  /** Size of the volume; 0 if its claim does not tell it. */
  readonly bytes: number;
  /** Time since which it is suspended, in milliseconds since the epoch; undefined if nothing that parses says it. */
  readonly suspendedMs: number | undefined;
  /** Time from which it may be removed, in milliseconds since the epoch; undefined if that is unknown, or while it is held. */
  readonly removableMs: number | undefined;
}

/**
 * Lists the volumes by the label that all of them have. StatefulSets are listed only if there is one. Absent namespace: all.
 * Throws ClusterError.
 */
export async function listSuspendedVolumes(
  cluster: Pick<Cluster, "list">,
  namespace: string | undefined,
): Promise<readonly SuspendedVolume[]> {
  const scope = namespace === undefined ? {} : { namespace };
  const labelSelector = `${suspended.key}=true`;
  const { items } = await cluster.list("persistentvolumeclaims", { ...scope, labelSelector });
  if (items.length === 0) return [];
  const sets = (await cluster.list("statefulsets", scope)).items.map(parseSuspendableSet);
  const pvcs = items.map(parsePvc);
  const namespaces = [...new Set(pvcs.map(({ namespace }) => namespace))];
  return namespaces.flatMap((one) => {
    const here = <T extends { namespace: string }>(all: readonly T[]) =>
      all.filter((object) => object.namespace === one);
    const members = findAll(here(sets), here(pvcs), []);
    const owned = new Map(members.flatMap((member) => member.pvcs.map((pvc) => [pvc, member] as const)));
    return here(pvcs).map((pvc) => volumeOf(pvc, owned.get(pvc)));
  });
}

function volumeOf(pvc: Pvc, member: Member | undefined): SuspendedVolume {
  const { namespace, name, bytes = 0, state, suspendedMs } = pvc;
  const kept = member && durationNow(member);
  const hasOurFinalizer =
    member === undefined ||
    pvc.isOnHold ||
    member.set.policy.isOnHold ||
    isRecovering(member) ||
    member.set.policy.mode === "None";
  const removableMs =
    kept?.kind === "value" && suspendedMs !== undefined && !hasOurFinalizer ? suspendedMs + kept.value : undefined;
  const zone = member?.set.name ?? "";
  return { namespace, name, zone, state: valueIn(state) ?? "unknown", bytes, suspendedMs, removableMs };
}
