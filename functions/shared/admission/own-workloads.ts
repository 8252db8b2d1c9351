/** Identifies the pods of Sluice's webhooks. No budget applies to them: without them no eviction is answered, theirs included. */
import type { Pod } from "../workloads/pods.ts";

/** The labels of the pods that answer reviews, as our manifests have them. */
export const answersReviews = { "app.kubernetes.io/name": "sluice", "app.kubernetes.io/component": "admission" };

/** The ReplicaSets of our Deployments, in either overlay. */
const ownReplicaSet = /^sluice(-admission)?-[a-z0-9]+$/;

const drawn = "[bcdfghjklmnpqrstvwxz2456789]{5}";
/**
 * In CEL, a review of a pod with the name of one of our Deployments' pods, which ends in five random letters or digits. The API
 * server knows only the name there. If these are digits alone, the name may be that of a StatefulSet's pod. Then the API server
 * asks the webhook, which reads the pod itself.
 */
export const namedLikeOurs = `request.name.matches('^sluice(-admission)?-[a-z0-9]+-${drawn}$') && !request.name.matches('-[0-9]+$')`;

const deployments = "(sluice(-admission)?|([a-z0-9-]+-)?rollout-operator)";
/**
 * In CEL, a review of a Deployment of ours, or of a ReplicaSet of one; rollout-operator's Deployment may be ours by its image.
 * Users must be able to change it and make it smaller while no webhook answers, because they could not repair it otherwise.
 */
export const workloadNamedLikeOurs =
  `request.resource.resource == 'deployments' && request.name.matches('^${deployments}$')` +
  ` || request.resource.resource == 'replicasets' && request.name.matches('^${deployments}-[a-z0-9]+$')`;

/** True for a pod of a Deployment of ours, by its labels and its ReplicaSet; never for a pod of a StatefulSet. */
export function isOurs({ labels, ownerKind, ownerName = "" }: Pod): boolean {
  const isLabelled = Object.entries(answersReviews).every(([key, value]) => labels[key] === value);
  return isLabelled && ownerKind === "ReplicaSet" && ownReplicaSet.test(ownerName);
}
