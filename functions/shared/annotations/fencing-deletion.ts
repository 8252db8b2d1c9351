/** How the pods of a fenced node are moved, and the backup of a Node that is deleted and made again for that. */

import { type Fields, fieldsOf, parseFields } from "../base/fields.ts";
import type { NodeObject } from "../kubernetes/cluster.ts";
import { annotationOn, oneOf } from "./entry.ts";

/** `out-of-service`: by that taint. `node-deletion`: the Node is deleted, and made again. */
export const fenceStrategies = ["out-of-service", "node-deletion"] as const;
export type FenceStrategy = (typeof fenceStrategies)[number];

/** Labels or annotations. */
export type NodeTexts = Readonly<Record<string, string>>;

/** What a Node is made again from, and the version of it that was deleted. */
export interface NodeBackup {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: NodeTexts;
  readonly annotations: NodeTexts;
  readonly spec: NonNullable<NodeObject["spec"]>;
}

/** The longest backup, in bytes: an object may have 256 KiB of annotations. */
export const mostBackupBytes = 128 * 1024;

export const formatBackup = (backup: NodeBackup): string => JSON.stringify(backup);

function parseBackup(text: string): NodeBackup | undefined {
  const { uid, resourceVersion, ...rest } = parseFields(text) ?? {};
  if (typeof uid !== "string" || typeof resourceVersion !== "string") return undefined;
  const [labels, annotations, spec] = [textsOf(rest.labels), textsOf(rest.annotations), specOf(rest.spec)];
  if (labels === undefined || annotations === undefined || spec === undefined) return undefined;
  return { uid, resourceVersion, labels, annotations, spec };
}

function textsOf(value: unknown): NodeTexts | undefined {
  const fields = fieldsOf(value);
  const isText = (one: unknown) => typeof one === "string";
  return fields !== undefined && Object.values(fields).every(isText) ? (fields as NodeTexts) : undefined;
}

/** The API server checks what a Node may have; here only the taints are read. */
function specOf(value: unknown): NodeBackup["spec"] | undefined {
  const fields = fieldsOf(value);
  const { taints = [] } = fields ?? {};
  const isTaint = (one: Fields | undefined) => typeof one?.key === "string" && typeof one.effect === "string";
  const isWhole = Array.isArray(taints) && taints.every((one) => isTaint(fieldsOf(one)));
  return fields !== undefined && isWhole ? (fields as NodeBackup["spec"]) : undefined;
}

export const fenceStrategy = annotationOn("Node")("sluice.dev/fence-strategy", oneOf(fenceStrategies), {
  grammar: fenceStrategies.join(" or "),
  fallback: "out-of-service",
  meaning: "how the pods of the node are moved once it has stopped",
});

export const nodeBackup = annotationOn("Lease")("sluice.dev/node-backup", parseBackup, {
  grammar: 'JSON: {"uid", "resourceVersion", "labels", "annotations", "spec"}',
  fallback: "in the phases deleting and deleted the record is held: a person must look",
  meaning: "what the Node is made again from once it is deleted",
});
