/** `kubectl sluice recover`: writes the request to get volumes back, and prints what it can still achieve. */

import { volumeProtection, recover as wish } from "../../functions/shared/annotations/suspension.ts";
import { type Cluster, hasCode, type ObjectKey, type PvcObject } from "../../functions/shared/kubernetes/cluster.ts";
import { find } from "../../functions/shared/kubernetes/find.ts";
import { maxConflicts } from "../../functions/shared/ledger/reservation.ts";
import {
  belongs,
  type Marks,
  parseMarks,
  processGroupOf,
  usualMarks,
} from "../../functions/shared/volumes/foundationdb-marks.ts";
import { isSuspensionAsked, type Pvc, parsePvc, valueIn } from "../../functions/shared/volumes/pvc.ts";
import type { Recover } from "./commands.ts";
import { formatSpan } from "./span.ts";
import { inspectSuspended } from "./suspended.ts";

/** The text about one volume claim, and whether it was recovered as requested. */
export interface RecoverResult {
  readonly isDone: boolean;
  readonly message: string;
}

/** How often the plugin reads a volume claim while it waits for the end. */
const pollPvcEveryMs = 500;

/**
 * Each name is a suspended volume claim, or a group or StatefulSet with all of its own. The request is written under the
 * revision of a read that shows no removal, so that it wins against one, or is refused. Throws ClusterError.
 */
export async function recover(cluster: Cluster, namespace: string, wanted: Recover): Promise<readonly RecoverResult[]> {
  const claims: string[] = [];
  const results: RecoverResult[] = [];
  const { names, cluster: of } = wanted;
  const what = of === undefined ? "suspended volume claim, group or StatefulSet" : "volume of a process group";
  const where = of === undefined ? "" : ` in the FoundationDBCluster ${of}`;
  for (const name of names) {
    const found = await (of === undefined
      ? claimsOf(cluster, namespace, name)
      : claimsOfGroup(cluster, namespace, of, name));
    if (found.length === 0) results.push(refused(`there is no ${what} ${JSON.stringify(name)}${where}`));
    claims.push(...found);
  }
  const asked = await Promise.all([...new Set(claims)].map((name) => ask(cluster, { namespace, name }, wanted)));
  return [...results, ...asked];
}

async function claimsOf(cluster: Cluster, namespace: string, name: string): Promise<readonly string[]> {
  const { claims } = await inspectSuspended(cluster, namespace);
  const own = claims.filter(({ claim }) => claim === name);
  const chosen = own.length > 0 ? own : claims.filter(({ group, zone }) => group === name || zone === name);
  return chosen.map(({ claim }) => claim);
}

/** The volume claims that FoundationDB's operator has labelled so, by the labels that the cluster names. */
async function claimsOfGroup(cluster: Cluster, namespace: string, of: string, id: string): Promise<readonly string[]> {
  const marks = await marksOf(cluster, { namespace, name: of });
  const { items } = await cluster.list("persistentvolumeclaims", { namespace });
  const own = items.filter(({ metadata }) => belongs(metadata, marks) && processGroupOf(metadata, marks) === id);
  return own.map(({ metadata }) => metadata.name);
}

async function marksOf(cluster: Cluster, key: ObjectKey): Promise<Marks> {
  try {
    return parseMarks(await cluster.get("foundationdbclusters", key));
  } catch (error) {
    // If the cluster is gone, or may not be read, its volume claims have the default labels or none that Sluice knows.
    if (hasCode(error, 403, 404)) return usualMarks(key.name);
    throw error;
  }
}

async function ask(cluster: Cluster, key: ObjectKey, { wait, dryRun }: Recover): Promise<RecoverResult> {
  const { name } = key;
  for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
    const object = await find(cluster, "persistentvolumeclaims", key);
    if (object === undefined) return refused(`${name} is gone: its removal has ended`);
    const { uid, resourceVersion } = object.metadata;
    const why = whyNot(object);
    if (why !== undefined) return refused(why);
    if (dryRun) return { isDone: true, message: `${name}: would be recovered` };
    try {
      const body = { metadata: { uid, resourceVersion, annotations: { [wish.key]: "true" } } };
      await cluster.patch("persistentvolumeclaims", key, body);
    } catch (error) {
      if (!hasCode(error, 404, 409)) throw error;
      continue;
    }
    if (wait) return waitFor(cluster, key, uid);
    return { isDone: true, message: `${name}: nothing removes it any more; its pod comes back with the same volume` };
  }
  return refused(`${name} is not recovered: others write it all the time; try again`);
}

function whyNot(object: PvcObject): string | undefined {
  const pvc = parsePvc(object);
  if (!isSuspensionAsked(object)) return `${pvc.name} is not suspended`;
  return pvc.isTerminating || valueIn(pvc.state) === "Removing" ? tooLate(pvc) : undefined;
}

/** Until no annotation of Sluice is on it, which is when its pod is ready with it. */
async function waitFor(cluster: Cluster, key: ObjectKey, uid: string): Promise<RecoverResult> {
  const sinceMs = cluster.monotonicMs();
  for (;;) {
    const object = await find(cluster, "persistentvolumeclaims", key);
    if (object?.metadata.uid !== uid) return refused(`${key.name} is gone`);
    if (!isSuspensionAsked(object)) {
      const took = formatSpan(cluster.monotonicMs() - sinceMs);
      return { isDone: true, message: `${key.name}: its pod is ready with the same volume, after ${took}` };
    }
    const { recover: asked, message } = parsePvc(object);
    if (asked.kind === "absent")
      return refused(`${key.name}: ${message?.text ?? "another client has taken the wish away"}`);
    await cluster.sleep(pollPvcEveryMs);
  }
}

function refused(message: string): RecoverResult {
  return { isDone: false, message };
}

/** How a user saves the volume of a claim that does not come back. */
function tooLate({ name, volumeName, isTerminating, isProtected }: Pvc): string {
  if (volumeName === undefined) return `${name}: it is too late: its removal has begun, and it has no PersistentVolume`;
  const patch = `kubectl patch pv ${volumeName} -p '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`;
  const saved = `clear spec.claimRef of that volume, and make ${name} anew with spec.volumeName: ${volumeName}`;
  // If a user recreates it while its process group is still to go, FoundationDB's operator deletes it once more.
  if (isTerminating && isProtected)
    return `${name}: it is too late: another client has deleted it, and only our finalizer keeps its volume. To save that, type: ${patch}; then take ${volumeProtection} from ${name}; when FoundationDB's operator does not list the process group any more, ${saved} and the same labels`;
  return `${name}: it is too late: its removal has begun. To save its volume, type at once: ${patch}; when ${name} is gone, ${saved}`;
}
