/** The strategy `node-deletion` at the API server: what a decision sees of the Node, and the calls that delete and make it. */

import { read } from "../shared/annotations/entry.ts";
import { fenceHold, fenceId } from "../shared/annotations/fencing.ts";
import { fenceStrategy, formatBackup, type NodeBackup, nodeBackup } from "../shared/annotations/fencing-deletion.ts";
import type { Annotation, Malformed } from "../shared/annotations/table.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import type { Cluster, NodeObject } from "../shared/kubernetes/cluster.ts";
import { backUp, type DeletionView, lackOfNode, restoredNode } from "./node-backup.ts";
import type { FenceStep, RecordSeen } from "./snapshot.ts";

/**
 * @param malformed gets an unknown strategy, which counts as the default
 * @param mark it stays on the Node
 */
export function deletionView(
  object: NodeObject | undefined,
  record: RecordSeen | "unreadable" | undefined,
  malformed: Malformed[],
  mark: Pick<Annotation<string>, "key">,
): DeletionView | undefined {
  if (object === undefined) return undefined;
  const backup = typeof record === "object" ? record.backup : undefined;
  return {
    isAsked: read(fenceStrategy, object.metadata, malformed) === "node-deletion",
    finalizers: object.metadata.finalizers ?? [],
    backup: backUp(object, mark),
    lack: backup && lackOfNode(object, backup),
  };
}

/** A write of the Node itself, and not of its record. */
export type NodeStep = Extract<FenceStep, { readonly kind: "delete-node" | "restore-node" | "complete-node" }>;

/** Steps without which a fence goes on where the API server refuses them: it then waits, and names what is missing. */
export const refusableSteps = ["delete-node", "restore-node", "complete-node"] as const;

/** Throws ClusterError. */
export function writeNode(cluster: Cluster, key: ObjectRef, step: NodeStep, notAfterMs: number): Promise<unknown> {
  switch (step.kind) {
    case "delete-node": {
      const { uid, resourceVersion } = step.backup;
      return cluster.delete("nodes", key, { uid, resourceVersion }, { notAfterMs });
    }
    case "restore-node":
      return cluster.create("nodes", "", restoredNode(key.name, withFence(step.backup, step.fenceId)), { notAfterMs });
    case "complete-node": {
      const { uid, resourceVersion } = step.node;
      const { labels, annotations, spec } = withFence(step.lack, step.fenceId);
      const body = { metadata: { uid, resourceVersion, labels, annotations }, spec };
      return cluster.patch("nodes", key, body, { notAfterMs });
    }
  }
}

/** The Node names the fence that has made or completed it. */
const withFence = <N extends Pick<NodeBackup, "annotations">>(node: N, id: string): N => ({
  ...node,
  annotations: { ...node.annotations, [fenceId.key]: id },
});

/** What the record has of a deletion as it enters a phase: the backup stands in it while the Node may be gone. */
export function textsOfDeletion({
  phase,
  backup,
  hold,
}: Extract<FenceStep, { readonly kind: "enter" }>): Readonly<Record<string, string | null>> {
  const waits = { [fenceHold.key]: hold ?? null };
  if (phase === "deleted") return waits;
  return { ...waits, [nodeBackup.key]: backup === undefined ? null : formatBackup(backup) };
}
