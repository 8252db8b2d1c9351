/** The output of `kubectl sluice suspended`: the kept volumes, their time and size, and the wait of each. */

import { read, rolloutGroup } from "../../functions/shared/annotations/table.ts";
import { mapLimit } from "../../functions/shared/base/map-limit.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { durationNow } from "../../functions/shared/suspension/time-left.ts";
import { type Member, parseVolumeUser } from "../../functions/shared/volumes/members.ts";
import { findAll, groupOfPvc } from "../../functions/shared/volumes/owners.ts";
import { isSuspensionAsked, type Pvc, parsePvc, valueIn } from "../../functions/shared/volumes/pvc.ts";
import { parseSuspendableSet } from "../../functions/shared/volumes/suspendable-set.ts";
import { formatSpan } from "./span.ts";
import { type Emphasis, tableOf } from "./text.ts";

/** One volume claim that is suspended, is to be, or is wanted back. */
export interface SuspendedInspection {
  readonly claim: string;
  readonly namespace: string;
  readonly uid: string;
  /** Null where neither a StatefulSet has it nor another owner. */
  readonly pod: string | null;
  readonly zone: string | null;
  readonly group: string | null;
  /** `Requested` before anything of ours stands on it. */
  readonly state: "Requested" | "Suspending" | "Suspended" | "Removing";
  readonly since: string | null;
  /** Time of its removal at the earliest; null if that is unknown. */
  readonly until: string | null;
  readonly guard: string | null;
  readonly sentence: string | null;
  readonly bytes: number | null;
  readonly volume: string | null;
  /** Whether a user wants it back. */
  readonly recovering: boolean;
}

export interface SuspendedList {
  /** Null: all. */
  readonly namespace: string | null;
  /** The API server's clock. */
  readonly at: string;
  readonly claims: readonly SuspendedInspection[];
  readonly bytes: number;
}

/** Each needs three LISTs. */
const mostNamespacesAtOnce = 4;

/** All suspended volumes of a namespace, or those of one group, or of one StatefulSet. Throws ClusterError. */
export async function inspectSuspended(cluster: Cluster, namespace: string, name?: string): Promise<SuspendedList> {
  const [pvcs, sets, pods] = await Promise.all([
    cluster.list("persistentvolumeclaims", { namespace }),
    cluster.list("statefulsets", { namespace }),
    cluster.list("pods", { namespace }),
  ]);
  const asked = pvcs.items.filter(isSuspensionAsked).map(parsePvc);
  const groups = new Map(sets.items.map(({ metadata }) => [metadata.name, read(rolloutGroup, metadata)]));
  const members = findAll(sets.items.map(parseSuspendableSet), asked, pods.items.map(parseVolumeUser));
  const owned = new Set(members.flatMap((member) => member.pvcs));
  const all = [
    ...members.flatMap((member) => {
      const group = groupOfClaims(member) ?? groups.get(member.set.name);
      return member.pvcs.map((pvc) => inspect(pvc, member, group));
    }),
    ...asked.filter((pvc) => !owned.has(pvc)).map((pvc) => inspect(pvc, undefined, undefined)),
  ];
  const found = all.filter(({ zone, group }) => name === undefined || name === zone || name === group);
  const at = new Date(cluster.serverTimeMs()).toISOString();
  return { namespace, at, claims: found, bytes: found.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0) };
}

/** The same of all namespaces. Throws ClusterError. */
export async function inspectSuspendedEverywhere(cluster: Cluster, name?: string): Promise<SuspendedList> {
  const { items } = await cluster.list("persistentvolumeclaims", {});
  const asked = items.filter(isSuspensionAsked).map(({ metadata: { namespace = "" } }) => namespace);
  const lists = await mapLimit([...new Set(asked)].sort(), mostNamespacesAtOnce, (namespace) =>
    inspectSuspended(cluster, namespace, name),
  );
  const at = new Date(cluster.serverTimeMs()).toISOString();
  const bytes = lists.reduce((sum, list) => sum + list.bytes, 0);
  return { namespace: null, at, claims: lists.flatMap(({ claims }) => claims), bytes };
}

/** The owner that its volume claims name; undefined for a member of a StatefulSet. */
function groupOfClaims({ set, pvcs }: Member): string | undefined {
  const [first] = set.owner === undefined ? [] : pvcs;
  return first && groupOfPvc(first);
}

function inspect(pvc: Pvc, member: Member | undefined, group: string | undefined): SuspendedInspection {
  const kept = member && durationNow(member);
  const untilMs = kept?.kind === "value" && pvc.suspendedMs !== undefined ? pvc.suspendedMs + kept.value : undefined;
  return {
    claim: pvc.name,
    namespace: pvc.namespace,
    uid: pvc.uid,
    pod: member?.name ?? null,
    zone: member?.set.name ?? null,
    group: group ?? null,
    state: valueIn(pvc.state) ?? "Requested",
    since: timeOf(pvc.suspendedMs),
    until: timeOf(untilMs),
    guard: pvc.message?.guard ?? null,
    sentence: pvc.message?.text ?? null,
    bytes: pvc.bytes ?? null,
    volume: pvc.volumeName ?? null,
    recovering: pvc.recover.kind !== "absent",
  };
}

function timeOf(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}

/** A table, and below it the wait of each. */
export function formatSuspended({ namespace, at, claims, bytes }: SuspendedList, emphasize: Emphasis): string {
  const nowMs = Date.parse(at);
  const rows = claims.map(({ namespace: own, claim, zone, state, since, until, bytes: size, guard }) => [
    ...(namespace === null ? [own] : []),
    claim,
    zone ?? "-",
    state,
    since === null ? "-" : formatSpan(nowMs - Date.parse(since)),
    until === null ? "-" : Date.parse(until) <= nowMs ? "over" : formatSpan(Date.parse(until) - nowMs),
    formatBytes(size),
    guard ?? "-",
  ]);
  const headings = ["CLAIM", "ZONE", "STATE", "FOR", "LEFT", "SIZE", "WAITS"];
  const table = tableOf([...(namespace === null ? ["NAMESPACE"] : []), ...headings], rows, emphasize);
  const messages = [
    ...new Set(claims.flatMap(({ guard, sentence: message }) => (guard === null ? [] : [`${guard}: ${message}`]))),
  ];
  const count = claims.length === 1 ? "1 volume claim" : `${claims.length} volume claims`;
  return `${[...table, "", ...messages, `${count}, ${bytes === 0 ? "of unknown size" : formatBytes(bytes)}`].join("\n")}\n`;
}

/** As Kubernetes writes sizes. */
function formatBytes(bytes: number | null): string {
  if (bytes === null) return "-";
  const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let size = bytes;
  let unit = 0;
  for (; size >= 1024 && unit < units.length - 1; unit++) size /= 1024;
  return `${Number(size.toFixed(1))}${units[unit]}`;
}
