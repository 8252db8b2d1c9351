/** Which volume claims and pods are a FoundationDBCluster's, by the labels that it names itself (`spec.labels`). Pure. */

import { describeExcess, mostEntries } from "../annotations/bounds.ts";
import { clusterName, processGroupId } from "../annotations/foundationdb.ts";
import { removalHeld, volumeOwner } from "../annotations/suspension.ts";
import { shownCharacters } from "../base/escape-control.ts";
import { type Fields, fieldsOf } from "../base/fields.ts";
import type { Metadata, OtherObject } from "../kubernetes/cluster.ts";

/** How FoundationDB's operator finds what is a cluster's own. */
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
/** What a selector takes in a LIST. */
const keyPattern = /^[-A-Za-z0-9_./]{1,317}$/;
const valuePattern = /^[-A-Za-z0-9_.]{0,63}$/;

/** The marks of a cluster of which nothing is known but its name. */
export function usualMarks(name: string): Marks {
  const matchLabels = new Map([[clusterName.key, name]]);
  return { name, uid: undefined, matchLabels, idLabels: [processGroupId.key], unreadable: undefined };
}

/** What is left out, or empty, is the operator's usual label. */
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

/** What was made before the cluster named a label of its own has the usual one still. */
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

/** For a LIST; undefined where labels alone find nothing. */
export function selectorOf({ matchLabels }: Marks): string | undefined {
  return matchLabels && [...matchLabels].map(([key, value]) => `${key}=${value}`).join(",");
}

/** Its owner says so; or its labels do, or what we wrote to hold it back, and no other cluster owns it. */
export function belongs(metadata: Metadata, { name, uid, matchLabels }: Marks): boolean {
  const { labels = {}, annotations = {}, ownerReferences = [] } = metadata;
  const owner = ownerReferences.find((one) => one.kind === kind);
  if (owner !== undefined && owner.name !== name) return false;
  // Where the cluster is gone nothing else says whose it was.
  if (owner !== undefined && (uid === undefined || owner.uid === uid)) return true;
  const isOurs = volumeOwner.parse(annotations[volumeOwner.key] ?? "")?.name === name;
  if (isOurs && annotations[removalHeld.key] !== undefined) return true;
  return matchLabels !== undefined && [...matchLabels].every(([key, value]) => labels[key] === value);
}

/** The FoundationDBCluster that a volume claim is of, by its owner or by the usual label; undefined where neither says it. */
export function clusterOf({ labels = {}, ownerReferences = [] }: Metadata): string | undefined {
  return ownerReferences.find((one) => one.kind === kind)?.name ?? labels[clusterName.key];
}

/** The process group of an object; undefined where no label says it. */
export function processGroupOf({ labels = {} }: Metadata, { idLabels }: Marks): string | undefined {
  return idLabels.map((key) => labels[key]).find((id) => id !== undefined && id !== "");
}
