/** Which pods answer reviews. No budget holds them, because without any of them no pod answers reviews of them, either. */
import type { Pod } from "../workloads/pods.ts";

/** The labels of the pods that answer reviews, as our manifests have them. */
export const answersReviews = { "app.kubernetes.io/name": "sluice", "app.kubernetes.io/component": "admission" };

/** The ReplicaSets of our Deployments, in either overlay. */
const ownReplicaSet = /^sluice(-admission)?-[a-z0-9]+$/;

const drawn = "[bcdfghjklmnpqrstvwxz2456789]{5}";
/**
 * In CEL, a review of a pod that is called like one of a Deployment of ours: they end in five letters or digits that are drawn.
 * All that the API server knows there is a name: where these are digits alone, it may be that of a StatefulSet's pod, and the
 * webhook that answers the review looks at the pod itself.
 */
export const namedLikeOurs = `request.name.matches('^sluice(-admission)?-[a-z0-9]+-${drawn}$') && !request.name.matches('-[0-9]+$')`;

const deployments = "(sluice(-admission)?|([a-z0-9-]+-)?rollout-operator)";
/**
 * In CEL, a review of a Deployment of ours, or of a ReplicaSet of one; rollout-operator's Deployment may be ours by its image.
 * Users must be able to change it and make it smaller while no webhook answers, or they could never mend it.
 */
export const workloadNamedLikeOurs =
  `request.resource.resource == 'deployments' && request.name.matches('^${deployments}$')` +
  ` || request.resource.resource == 'replicasets' && request.name.matches('^${deployments}-[a-z0-9]+$')`;

/** True for a pod of a Deployment of ours, by its labels and by what controls it: never for one of a StatefulSet. */
export function isOurs({ labels, ownerKind, ownerName = "" }: Pod): boolean {
  const isLabelled = Object.entries(answersReviews).every(([key, value]) => labels[key] === value);
  return isLabelled && ownerKind === "ReplicaSet" && ownReplicaSet.test(ownerName);
}
