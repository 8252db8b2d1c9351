/** What is told of a FoundationDBCluster besides its removals: its own settings, and volume claims of another. Pure. */
import type { GroupDecision } from "./decide-group.ts";
import { isKept, isProtecting, type ProtectionSnapshot, wordsOnKept } from "./decide-protection.ts";
import type { FoundationCluster, ProcessGroupPvc } from "./foundation-cluster.ts";
import { whyUnfound } from "./messages.ts";

/** A process group of which something is said in an Event. */
export interface GroupEvent extends Pick<GroupDecision, "guard" | "sentence"> {
  readonly id: string;
}

/** Why the option that protects volume claims cannot be read, where it cannot. */
export function tellOfOption({ cluster }: ProtectionSnapshot): readonly GroupEvent[] {
  if (cluster?.protects.kind !== "malformed") return [];
  return [{ id: cluster.name, guard: "protection-malformed", sentence: cluster.protects.sentence }];
}

/** The cluster's own settings that Sluice cannot read, or that do not lead to its volumes. */
export function tellOfSettings(snapshot: ProtectionSnapshot): readonly GroupEvent[] {
  const { cluster } = snapshot;
  if (cluster === undefined || cluster.isDeleting) return [];
  const { name: id, unreadable, duration, held } = cluster;
  if (duration.kind === "absent" && held.kind === "absent" && !isProtecting(snapshot)) return [];
  const unfound = whyUnfound(snapshot);
  return [
    ...(unreadable === undefined ? [] : [{ id, guard: "removal-mode-unknown", sentence: unreadable }]),
    ...(unfound === undefined ? [] : [{ id, guard: "volume-unfound", sentence: unfound }]),
  ];
}

/** One of the same name had them, and is gone: nothing is written to them. */
export function tellOfStrangers({ cluster, pvcs }: ProtectionSnapshot): readonly GroupEvent[] {
  if (cluster === undefined || cluster.isDeleting) return [];
  return pvcs.filter((pvc) => isStranger(pvc, cluster)).map(tellOfGone);
}

export function tellOfGone(pvc: ProcessGroupPvc): GroupEvent {
  return { id: pvc.group, ...wordsOnKept(pvc.group, pvc, "owner-gone") };
}

export function isStranger(pvc: ProcessGroupPvc, { uid }: FoundationCluster): boolean {
  return isKept(pvc) && !pvc.ownerUids.includes(uid);
}
