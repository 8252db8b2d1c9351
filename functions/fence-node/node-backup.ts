/** What of a Node is kept when it is deleted, and how it is made again. Pure. */

import * as keys from "../shared/annotations/fencing.ts";
import type { NodeBackup, NodeTexts } from "../shared/annotations/fencing-deletion.ts";
import type { NodeObject } from "../shared/kubernetes/cluster.ts";

type SpecTaint = NonNullable<NonNullable<NodeObject["spec"]>["taints"]>[number];

/** What a fence writes on a Node, but for the mark, which stays until the node is back. */
const ofTheFence: ReadonlySet<string> = new Set(
  [keys.fenceId, keys.fencePhase, keys.fenceHold, keys.fenceConfirmed].map(({ key }) => key),
);
/** What networks, drivers of volumes and the kubelet write anew. What they wrote for the last boot may mislead the next one. */
const ofTheBoot = [
  /ovn/,
  /^csi\.volume\.kubernetes\.io\//,
  /^volumes\.kubernetes\.io\//,
  /^projectcalico\.org\//,
  /^flannel\.alpha\.coreos\.com\//,
  /^(network|io)\.cilium\b/,
  /^node\.antrea\.io\//,
  /^kube-router\.io\//,
  /^k8s\.v1\.cni\.cncf\.io\//,
  /^vpc\.amazonaws\.com\//,
];
/** Kubernetes sets the first two while a Node is not Ready. The third one has done its work once the pods are gone. */
const taintsOfTheOutage: ReadonlySet<string> = new Set([
  "node.kubernetes.io/unreachable",
  "node.kubernetes.io/not-ready",
  keys.outOfServiceTaint.key,
]);

/** What a deletion of the Node rests on. */
export interface DeletionView {
  /** The Node asks for the strategy. */
  readonly isAsked: boolean;
  readonly finalizers: readonly string[];
  /** Of the Node as it is now. */
  readonly backup: NodeBackup;
  /** What the Node lacks of the backup in the record; undefined where it lacks nothing, or the record has none. */
  readonly lack: NodePatch | undefined;
}

/** What of a Node outlasts its deletion: all of others that no controller writes anew. */
export function backUp(
  { metadata, spec = {} }: NodeObject,
  mark: { readonly key: string } = keys.unhealthy,
): NodeBackup {
  const { uid, resourceVersion, labels = {}, annotations = {} } = metadata;
  const isOthers = (key: string) => !ofTheFence.has(key) && !ofTheBoot.some((pattern) => pattern.test(key));
  const isKept = (key: string) => key === mark.key || isOthers(key);
  const { podCIDR, podCIDRs, providerID, unschedulable, taints = [] } = spec;
  const keptTaints = taints.filter(({ key }) => key !== keys.fenceTaint.key && !taintsOfTheOutage.has(key));
  return {
    uid,
    resourceVersion,
    labels,
    annotations: Object.fromEntries(Object.entries(annotations).filter(([key]) => isKept(key))),
    spec: {
      ...(podCIDR === undefined ? {} : { podCIDR }),
      ...(podCIDRs === undefined ? {} : { podCIDRs }),
      ...(providerID === undefined ? {} : { providerID }),
      ...(unschedulable === undefined ? {} : { unschedulable }),
      ...(keptTaints.length === 0 ? {} : { taints: keptTaints }),
    },
  };
}

/** The Node that is made from a backup. It has no status: its kubelet reports one. */
export function restoredNode(name: string, { labels, annotations, spec }: NodeBackup): object {
  return { apiVersion: "v1", kind: "Node", metadata: { name, labels, annotations }, spec };
}

/**
 * The merge patch that gives a Node what it lacks of a backup; undefined where it lacks nothing. What the Node has by now stays
 * as it is.
 */
export function lackOfNode({ metadata, spec = {} }: NodeObject, backup: NodeBackup): NodePatch | undefined {
  const labels = missing(metadata.labels, backup.labels);
  const annotations = missing(metadata.annotations, backup.annotations);
  const { taints = [] } = spec;
  const has = ({ key, effect }: SpecTaint) => taints.some((one) => one.key === key && one.effect === effect);
  const missingTaints = (backup.spec.taints ?? []).filter((one) => !has(one));
  const isCordonMissing = backup.spec.unschedulable === true && spec.unschedulable !== true;
  const changes = {
    ...(missingTaints.length === 0 ? {} : { taints: [...taints, ...missingTaints] }),
    ...(isCordonMissing ? { unschedulable: true } : {}),
  };
  const counts = [labels, annotations, changes].map((one) => Object.keys(one).length);
  return counts.every((count) => count === 0) ? undefined : { labels, annotations, spec: changes };
}

/** What a merge patch of a Node adds. */
export interface NodePatch {
  readonly labels: NodeTexts;
  readonly annotations: NodeTexts;
  readonly spec: NonNullable<NodeObject["spec"]>;
}

function missing(there: NodeTexts = {}, wanted: NodeTexts): NodeTexts {
  return Object.fromEntries(Object.entries(wanted).filter(([key]) => there[key] === undefined));
}
