/** `kubectl sluice fence` and `confirm`: each writes one annotation of a Node, under the revision of a read that permits it. */
import { fenceConfirmed, fenceNever } from "../../functions/shared/annotations/fencing.ts";
import { recordName } from "../../functions/shared/annotations/fencing-leases.ts";
import { read } from "../../functions/shared/annotations/table.ts";
import { markOf } from "../../functions/shared/fencing/mark.ts";
import type { Cluster, NodeObject } from "../../functions/shared/kubernetes/cluster.ts";
import { find } from "../../functions/shared/kubernetes/find.ts";
import { annotate } from "./annotate.ts";
import type { ConfirmArguments, FenceArguments } from "./commands.ts";
import { isReady, readRecord } from "./fences.ts";

/** What it would write does not apply to this node, as the message says. */
export class NotFenced extends Error {}

/** What the state of a node permits: an annotation, or a text that says that nothing is left to do. */
type Permitted = { readonly annotation?: readonly [key: string, text: string]; readonly done: string } | string;

/** Marks a node: `fence-node` begins a fence. Resolves to what was done. Throws NotFenced and ClusterError. */
export function markNode(cluster: Cluster, { node, reason, mark, dryRun }: FenceArguments): Promise<string> {
  const annotation = markOf({ settings: { fenceMark: mark } });
  return annotateNode(cluster, node, dryRun, async ({ metadata }) => {
    const known = read(annotation, metadata);
    if (metadata.annotations?.[fenceNever.key] !== undefined)
      throw new NotFenced(`${node} has the annotation ${fenceNever.key}, which excludes it from fences`);
    if (known !== undefined) return `${node} has the mark already: ${known}`;
    const done = `${node} is marked: ${reason}. kubectl sluice fenced shows its fence. Until that is armed, this takes it back: kubectl annotate node ${node} ${mark}-`;
    return { annotation: [mark, reason], done };
  });
}

/**
 * Confirms that the machine of a fenced node is off, which is evidence.
 *
 * @param namespace of the records
 */
export function confirmNode(cluster: Cluster, namespace: string, { node, dryRun }: ConfirmArguments): Promise<string> {
  return annotateNode(cluster, node, dryRun, async (object) => {
    const lease = await find(cluster, "leases", { namespace, name: recordName(node) });
    const record = lease && readRecord(lease);
    if (record === undefined)
      throw new NotFenced(`${node} is not fenced: namespace ${namespace} has no record of a fence`);
    if (record === "unreadable")
      throw new NotFenced(`another version of Sluice wrote the record of the fence of ${node}`);
    const { phase, evidence, fenceId } = record;
    if (phase === "claimed") throw new NotFenced(`the fence of ${node} is not armed yet`);
    if (phase !== "armed") return `nothing is left to confirm: ${node} has stopped (${evidence})`;
    if (read(fenceConfirmed, object.metadata) === fenceId) return `${node} is confirmed already`;
    if (isReady(object))
      throw new NotFenced(`the Node ${node} is Ready, so its machine runs, or has stopped less than a minute ago`);
    return {
      annotation: [fenceConfirmed.key, fenceId],
      done: `${node} is confirmed to be off: its pods start elsewhere`,
    };
  });
}

async function annotateNode(
  cluster: Cluster,
  name: string,
  dryRun: boolean,
  permit: (node: NodeObject) => Promise<Permitted>,
): Promise<string> {
  let message = "";
  const isSettled = await annotate(cluster, "nodes", { namespace: "", name }, async (object) => {
    if (object === undefined) throw new NotFenced(`there is no Node ${name}`);
    const permitted = await permit(object);
    const { annotation, done } = typeof permitted === "string" ? { done: permitted } : permitted;
    message = dryRun && annotation !== undefined ? `would be done: ${done}` : done;
    return dryRun || annotation === undefined ? undefined : Object.fromEntries([annotation]);
  });
  if (isSettled) return message;
  throw new NotFenced(`nothing was written: other clients write the Node ${name} all the time; try again`);
}
