/** Which volume claims have our finalizer although no removal concerns them (spec suspend-before-delete 3.5, F2). Pure. */
import * as keys from "../shared/annotations/suspension.ts";
import type { Blocked } from "../shared/ledger/claim-kinds.ts";
import { valueIn } from "../shared/volumes/pvc.ts";
import type { FoundationCluster, ProcessGroupPvc } from "./foundation-cluster.ts";

/** What a decision about protection needs. */
export interface ProtectionSnapshot {
  /** Undefined where it is gone. */
  readonly cluster: FoundationCluster | undefined;
  readonly pvcs: readonly ProcessGroupPvc[];
  /** Those of the cluster whose process group no label names: their `group` is empty. */
  readonly unplaced: readonly ProcessGroupPvc[];
  /** False: nothing is held any more, as before an uninstall. */
  readonly keepsVolumes: boolean;
  readonly isNamespaceEnding: boolean;
}

/** A volume claim that gets our finalizer and its label, or loses both. */
export interface ProtectionChange {
  readonly pvc: ProcessGroupPvc;
  readonly protection: "add" | "drop";
}

/** A duration of 0 keeps nothing: there is no time for which a volume would be protected. */
export function wantsProtection({ protects, duration }: FoundationCluster): "yes" | "no" | "unclear" {
  if (protects.kind === "malformed") return "unclear";
  return valueIn(protects) === true && valueIn(duration) !== 0 ? "yes" : "no";
}

/** True for a cluster that asks for protection, or still has protected claims: it is reconciled even if nothing is blocked. */
export function isProtecting({ cluster, pvcs, unplaced }: ProtectionSnapshot): boolean {
  return (
    [...pvcs, ...unplaced].some(({ isProtected }) => isProtected) ||
    (cluster !== undefined && wantsProtection(cluster) === "yes")
  );
}

export function protectionChanges(snapshot: ProtectionSnapshot): readonly ProtectionChange[] {
  return [...snapshot.pvcs, ...snapshot.unplaced].flatMap((pvc): ProtectionChange[] => {
    if (isDropped(pvc, snapshot)) return [{ pvc, protection: "drop" }];
    return isAdded(pvc, snapshot) ? [{ pvc, protection: "add" }] : [];
  });
}

function isAdded(pvc: ProcessGroupPvc, { cluster, keepsVolumes, isNamespaceEnding }: ProtectionSnapshot): boolean {
  if (cluster === undefined || cluster.isDeleting || isNamespaceEnding || !keepsVolumes) return false;
  const isOver = pvc.isTerminating || valueIn(pvc.state) === "Removing";
  const isOurs = pvc.ownerUids.includes(cluster.uid);
  const isThere = pvc.isProtected && pvc.isLabelled;
  return wantsProtection(cluster) === "yes" && isOurs && !isOver && !isThere;
}

/**
 * One that is deleted keeps it until its time is over, whatever users write meanwhile: gc-suspended-groups takes it away
 * then. One that is suspended keeps it until it is removed, or is back.
 */
function isDropped(pvc: ProcessGroupPvc, { cluster, keepsVolumes, isNamespaceEnding }: ProtectionSnapshot): boolean {
  if (!pvc.isProtected && !(pvc.isLabelled && !pvc.isTerminating)) return false;
  // gc-suspended-groups lets go of a deleted volume claim, and first keeps its PersistentVolume.
  if (!keepsVolumes) return !pvc.isTerminating;
  if (isNamespaceEnding) return pvc.isTerminating && !pvc.isOnHold;
  if (cluster === undefined || cluster.isDeleting || wantsProtection(cluster) !== "no") return false;
  // Once it is being deleted its protection keeps it, as a suspension does.
  return pvc.state.kind === "absent" && !pvc.hasOurFinalizer;
}

/** True if it is deleted, and only our protection keeps it. */
export function isKept({ isTerminating, isProtected }: ProcessGroupPvc): boolean {
  return isTerminating && isProtected;
}

/** Why it is kept, and how a user saves its data. */
export function describeKept(id: string, { name, volumeName }: ProcessGroupPvc, why: KeptBecause): Blocked {
  const volume = volumeName === undefined ? "it has no PersistentVolume" : `save its PersistentVolume ${volumeName}`;
  return { guard: why, message: `${reasons[why](id, name)}; the volume claim cannot come back: ${volume}` };
}

const reasons = {
  "removal-begun": (id: string, claim: string) =>
    `${claim} was deleted before the removal of ${id} could be held back: our finalizer keeps its volume for its time`,
  "claim-deleted": (id: string, claim: string) =>
    `another client has deleted ${claim}: our finalizer keeps its volume until ${id} is removed, and for its time after that`,
  "owner-deleting": (_id: string, claim: string) =>
    `its cluster is being deleted, and ${claim} with it: our finalizer keeps its volume until a user takes that away`,
  "owner-gone": (_id: string, claim: string) =>
    `its cluster was deleted, and ${claim} with it: our finalizer keeps its volume until a user takes that away`,
} as const;

type KeptBecause = keyof typeof reasons;

export function isKeptBecause(guard: string): boolean {
  return Object.hasOwn(reasons, guard);
}

/**
 * Each says on itself why it is kept, until its time runs. By key. What gc-suspended-groups says of one whose PersistentVolume it
 * cannot keep stays: it would write that again.
 */
export function messageOf(pvc: ProcessGroupPvc, { guard, message }: Blocked): Readonly<Record<string, string>> {
  const isRecorded = [guard, "volume-not-retained"].includes(pvc.message?.guard ?? "");
  const isNews = pvc.state.kind === "absent" && !isRecorded;
  return isNews ? { [keys.suspendMessage.key]: keys.formatMessage({ guard, text: message }) } : {};
}
