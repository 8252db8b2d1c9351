/** Why the suspension of a member may not begin, whatever its data: by its owner, its users or its retention policy. Pure. */

import { suspendable, volumeOwner } from "../shared/annotations/suspension.ts";
import type { Blocked } from "../shared/ledger/claim-kinds.ts";
import type { Member } from "../shared/volumes/members.ts";
import { groupOfPvc, whyUnclear } from "../shared/volumes/owners.ts";
import { groupOfOwner } from "../shared/workloads/group-key.ts";

/** Why its suspension may not begin. */
export function whyNotBegun(member: Member): Blocked | undefined {
  const { name, set, pvcs } = member;
  const wait = (guard: string, message: string): Blocked => ({ guard, message });
  const unclear = whyUnclear(member);
  if (unclear !== undefined) return unclear;
  if (set.isDeleting) return wait("owner-deleting", `${name} stays as it is: ${set.name} is being deleted`);
  const replaced = pvcs.find(({ ownerUid }) => ownerUid !== undefined && ownerUid !== set.uid);
  if (replaced !== undefined)
    return wait("owner-replaced", `${name} stays as it is: ${set.name} is another one than its suspension began with`);
  const { controller } = member.pod ?? {};
  if (set.owner !== undefined && controller?.kind === "StatefulSet")
    return wait(
      "owner-statefulset",
      `${name} stays: the StatefulSet ${controller.name} controls it, and would have it back; take ${volumeOwner.key} away`,
    );
  const uncontrolled = whyUncontrolled(member);
  if (uncontrolled !== undefined) return wait("owner-not-controller", uncontrolled);
  if (set.owner !== undefined && pvcs.some(({ isOwnedByPod }) => isOwnedByPod))
    return wait("retention-conflict", `${name} stays: its volume claim belongs to its pod, and would go with it`);
  if (set.deletesWhenScaled || pvcs.some(({ isOwnedByPod }) => isOwnedByPod)) {
    const message = `${name} stays: the StatefulSet controller would delete its volume with the pod; set persistentVolumeClaimRetentionPolicy.whenScaled of ${set.name} to Retain`;
    return wait("retention-conflict", message);
  }
  return whyShared(member);
}

/**
 * A pod of another owner goes only if that owner controls it, or if the pod itself agrees. Otherwise a user with rights on volume
 * claims alone could name any owner, and so have any pod deleted.
 */
function whyUncontrolled({ name, set, pvcs, pod }: Member): string | undefined {
  if (set.owner === undefined || pod === undefined || suspendable.parse(pod.labels[suspendable.key] ?? "") === true)
    return undefined;
  const { controller } = pod;
  const controlling = controller && groupOfOwner(controller);
  if (controlling !== undefined && pvcs.every((pvc) => groupOfPvc(pvc) === controlling)) return undefined;
  const actual = controller === undefined ? "nothing controls it" : `${controller.kind} ${controller.name} controls it`;
  return `${name} stays: ${actual}, and not ${set.owner}; correct ${volumeOwner.key}, or label the pod ${suspendable.key}=true`;
}

function whyShared({ name, others }: Member): Blocked | undefined {
  if (others.length === 0) return undefined;
  const users = others.map((pod) => pod.name).join(", ");
  const message = `${name} stays as it is: ${users} uses one of its volume claims, too`;
  return { guard: "volume-shared", message };
}
