/** Reports about a FoundationDBCluster besides its removals: its own settings, and volume claims of another cluster. Pure. */
import type { GroupDecision } from "./decide-group.ts";
import { describeKept, isKept, isProtecting, type ProtectionSnapshot } from "./decide-protection.ts";
import type { FoundationCluster, ProcessGroupPvc } from "./foundation-cluster.ts";
import { whyUnfound } from "./messages.ts";

/** A process group that an Event reports something about. */
export interface GroupEvent extends Pick<GroupDecision, "guard" | "message"> {
  readonly id: string;
}

/** Why the option that protects volume claims cannot be read; undefined if it can. */
export function optionEvents({ cluster }: ProtectionSnapshot): readonly GroupEvent[] {
  if (cluster?.protects.kind !== "malformed") return [];
  return [{ id: cluster.name, guard: "protection-malformed", message: cluster.protects.message }];
}

/** The cluster's own settings that are malformed, or that do not lead to its volumes. */
export function settingsEvents(snapshot: ProtectionSnapshot): readonly GroupEvent[] {
  const { cluster } = snapshot;
  if (cluster === undefined || cluster.isDeleting) return [];
  const { name: id, unreadable, duration, heldGroups } = cluster;
  if (duration.kind === "absent" && heldGroups.kind === "absent" && !isProtecting(snapshot)) return [];
  const unfound = whyUnfound(snapshot);
  return [
    ...(unreadable === undefined ? [] : [{ id, guard: "removal-mode-unknown", message: unreadable }]),
    ...(unfound === undefined ? [] : [{ id, guard: "volume-unfound", message: unfound }]),
  ];
}

/** An earlier cluster of the same name had them, and is gone. Nothing is written to them. */
export function foreignEvents({ cluster, pvcs }: ProtectionSnapshot): readonly GroupEvent[] {
  if (cluster === undefined || cluster.isDeleting) return [];
  return pvcs.filter((pvc) => isForeign(pvc, cluster)).map(goneEvent);
}

export function goneEvent(pvc: ProcessGroupPvc): GroupEvent {
  return { id: pvc.group, ...describeKept(pvc.group, pvc, "owner-gone") };
}

export function isForeign(pvc: ProcessGroupPvc, { uid }: FoundationCluster): boolean {
  return isKept(pvc) && !pvc.ownerUids.includes(uid);
}
