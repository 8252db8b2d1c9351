/** Which volume claims and pods are a FoundationDBCluster's, by the labels that it names itself (`spec.labels`). Pure. */

import { describeExcess, mostEntries } from "../annotations/bounds.ts";
import { clusterName, processGroupId } from "../annotations/foundationdb.ts";
import { removalHeld, volumeOwner } from "../annotations/suspension.ts";
import { shownCharacters } from "../base/escape-control.ts";
import { type Fields, fieldsOf } from "../base/fields.ts";
import type { Metadata, OtherObject } from "../kubernetes/cluster.ts";

/** How FoundationDB's operator selects the objects of a cluster. */
export interface Marks {
  readonly name: string;
  /** Undefined where the cluster is gone. */
  readonly uid: string | undefined;
  /** Labels that are all on each object of its own; undefined if they are malformed. */
  readonly matchLabels: ReadonlyMap<string, string> | undefined;
  /** The first of these that an object has says of which process group it is. */
  readonly idLabels: readonly string[];
  /** Message for people: which part of `spec.labels` is malformed; undefined if none is. */
  readonly unreadable: string | undefined;
}

const kind = "FoundationDBCluster";
/** The labels that a LIST can select by. */
const keyPattern = /^[-A-Za-z0-9_./]{1,317}$/;
const valuePattern = /^[-A-Za-z0-9_.]{0,63}$/;

/** The marks of a cluster of which only the name is known. */
export function usualMarks(name: string): Marks {
  const matchLabels = new Map([[clusterName.key, name]]);
  return { name, uid: undefined, matchLabels, idLabels: [processGroupId.key], unreadable: undefined };
}

/** An absent or empty field means the operator's default label. */
export function parseMarks({ metadata: { name, uid }, spec }: Pick<OtherObject, "metadata" | "spec">): Marks {
  const { labels } = fieldsOf(spec) ?? {};
  const fields = fieldsOf(labels ?? {});
  const matchLabels = fields && parseMatchLabels(fields, name);
  const idLabels = fields && parseIdLabels(fields);
  const [field, value] =
    fields === undefined
      ? ["", labels]
      : matchLabels === undefined
        ? [".matchLabels", fields.matchLabels]
        : idLabels === undefined
          ? [".processGroupIDLabels", fields.processGroupIDLabels]
          : [];
  const shown = JSON.stringify(value)?.slice(0, shownCharacters);
  return {
    name,
    uid,
    matchLabels,
    idLabels: idLabels ?? [processGroupId.key],
    unreadable:
      field === undefined ? undefined : `spec.labels${field} of ${name} is ${shown}, which Sluice cannot read`,
  };
}

function parseMatchLabels({ matchLabels }: Fields, name: string): Marks["matchLabels"] {
  const pairs = Object.entries(fieldsOf(matchLabels ?? {}) ?? { "": "" });
  const isLabel = ([key, value]: readonly [string, unknown]): boolean =>
    keyPattern.test(key) && typeof value === "string" && valuePattern.test(value);
  if (describeExcess(pairs) !== undefined || !pairs.every(isLabel)) return undefined;
  return pairs.length === 0 ? usualMarks(name).matchLabels : new Map(pairs as [string, string][]);
}

/** An object from before the cluster named a label of its own still has the default one. */
function parseIdLabels({ processGroupIDLabels }: Fields): readonly string[] | undefined {
  const named: unknown = processGroupIDLabels ?? [];
  if (
    !Array.isArray(named) ||
    named.length > mostEntries ||
    !named.every((one) => typeof one === "string" && keyPattern.test(one))
  )
    return undefined;
  return [...new Set([...named, processGroupId.key])];
}

/** For a LIST; undefined if labels alone select nothing. */
export function selectorOf({ matchLabels }: Marks): string | undefined {
  return matchLabels && [...matchLabels].map(([key, value]) => `${key}=${value}`).join(",");
}

/** It belongs by its owner; or by its labels, or by Sluice's own record, if no other cluster owns it. */
export function belongs(metadata: Metadata, { name, uid, matchLabels }: Marks): boolean {
  const { labels = {}, annotations = {}, ownerReferences = [] } = metadata;
  const owner = ownerReferences.find((one) => one.kind === kind);
  if (owner !== undefined && owner.name !== name) return false;
  // If the cluster is gone, only this shows where it belonged.
  if (owner !== undefined && (uid === undefined || owner.uid === uid)) return true;
  const isOurs = volumeOwner.parse(annotations[volumeOwner.key] ?? "")?.name === name;
  if (isOurs && annotations[removalHeld.key] !== undefined) return true;
  return matchLabels !== undefined && [...matchLabels].every(([key, value]) => labels[key] === value);
}

/** The FoundationDBCluster of a volume claim, by its owner or by the default label; undefined without either. */
export function clusterOf({ labels = {}, ownerReferences = [] }: Metadata): string | undefined {
  return ownerReferences.find((one) => one.kind === kind)?.name ?? labels[clusterName.key];
}

/** The process group of an object; undefined without its label. */
export function processGroupOf({ labels = {} }: Metadata, { idLabels }: Marks): string | undefined {
  return idLabels.map((key) => labels[key]).find((id) => id !== undefined && id !== "");
}
