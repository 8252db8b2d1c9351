/**
 * The files that processes start with: those of the Secret that a user writes are copied into the one that the pods mount. A
 * Role of the user lets Sluice read and patch them by their names.
 */

import { type Malformed, read } from "../shared/annotations/entry.ts";
import { restartConfig, restartMode, restartMounted } from "../shared/annotations/restart.ts";
import { formatSettings, restartSettings } from "../shared/annotations/restart-files.ts";
import { BoundedMap } from "../shared/base/bounded-map.ts";
import type { Context } from "../shared/contract/context.ts";
import type { GroupMemory } from "../shared/contract/memory.ts";
import type { Zone } from "../shared/groups/zones.ts";
import { apiMessage, type ClusterError, hasCode, lackOf, type SecretObject } from "../shared/kubernetes/cluster.ts";
import type { Blocked } from "../shared/ledger/claim-kinds.ts";
import type { GroupKey, StatefulSet } from "../shared/workloads/statefulsets.ts";
import { askProcesses, startedWith } from "./ask-processes.ts";
import type { ManagerStatus } from "./calls.ts";
import { type FilesCopy, type FilesState, isNote, isOtherSum } from "./decide-files.ts";
import { type Coordinating, dependsOnStarted, type FilesChange, whyTogether } from "./drift/decide-settings.ts";
import { readSettings } from "./drift/settings.ts";
import { sumOf } from "./process-manager/kept-files.ts";

interface RefusedCopy {
  readonly copy: string;
  readonly message: string;
  readonly sinceMs: number;
}

/** What a process remembers of a group's files. Losing it costs time. */
interface FilesMemory {
  /** By {@link refusedKey}: which copy the API server has refused, why, and when by the monotonic clock. */
  readonly refused: BoundedMap<string, RefusedCopy>;
  /** By pod uid: for which sum its process manager waits, and since when by the monotonic clock. */
  readonly waiting: BoundedMap<string, { readonly sum: string; readonly sinceMs: number }>;
}

const remembered = 1_000;
/** For how long a refused copy is not tried again, in milliseconds: a Role that a user writes changes neither Secret. */
const refusedForMs = 10_000;
const memories = new WeakMap<GroupMemory, FilesMemory>();

function memoryOf(context: Context, key: GroupKey): FilesMemory {
  const memory = context.memoryOf(key);
  const known = memories.get(memory) ?? { refused: new BoundedMap(remembered), waiting: new BoundedMap(remembered) };
  memories.set(memory, known);
  return known;
}

/** The sum of the files in a Secret, as process managers report it. */
export function sumOfSecret({ data = {} }: Pick<SecretObject, "data">): string {
  return sumOf(new Map(Object.entries(data).map(([name, value]) => [name, Buffer.from(value, "base64")])));
}

/** Both Secrets of a StatefulSet: that with the expected files, and the mounted one. */
export interface FilesSecrets {
  readonly expected: SecretObject;
  readonly mounted: SecretObject;
}

/** Reads both Secrets anew; or why they cannot be read. Throws ClusterError. */
export async function readSecrets(context: Context, statefulSet: StatefulSet): Promise<FilesSecrets | Blocked> {
  const { expected: name = "", mounted: mountedName = "" } = statefulSet.restart?.files ?? {};
  const [expected, mounted] = await Promise.all([
    readSecret(context, statefulSet, name, restartConfig.key),
    readSecret(context, statefulSet, mountedName, restartMounted.key),
  ]);
  if ("guard" in expected) return expected;
  return "guard" in mounted ? mounted : { expected, mounted };
}

/**
 * Reads both Secrets anew, and asks the pods with which files they were started, where that matters. Undefined for a StatefulSet
 * that names no Secrets. Throws ClusterError.
 */
export async function readFiles(
  context: Context,
  key: GroupKey,
  { workload, pods }: Pick<Zone<StatefulSet>, "workload" | "pods">,
): Promise<FilesState | undefined> {
  if (workload.restart?.files === undefined) return undefined;
  const secrets = await readSecrets(context, workload);
  if ("guard" in secrets) return { kind: "blocked", blocked: secrets };
  return filesOf(context, key, workload, { ...secrets, ask: () => askProcesses(context, workload, pods) });
}

interface ReadFiles extends FilesSecrets {
  /** What the process managers of the pods report. It is asked for after the Secrets were read, and only where it matters. */
  readonly ask: () => Promise<readonly ManagerStatus[]>;
}

/** What these Secrets mean for the processes of a StatefulSet. Throws as `ask` does. */
export async function filesOf(
  context: Context,
  key: GroupKey,
  statefulSet: StatefulSet,
  { expected, mounted, ask }: ReadFiles,
): Promise<FilesState> {
  const [name, mountedName] = [expected.metadata.name, mounted.metadata.name];
  if (isEmpty(expected)) return blocked("restart-config-missing", `the Secret ${name} is empty: write its files`);
  const unreadable = blockedByMainFile(expected);
  if (unreadable !== undefined) return { kind: "blocked", blocked: unreadable };
  const sum = sumOfSecret(expected);
  const before = changeOf(expected, mounted);
  const isAsked = before !== undefined && dependsOnStarted(before);
  const change = isAsked ? { ...before, started: startedWith(await ask()) } : before;
  const together = blockedAlone({ expected, mounted, sum }, change);
  if (sumOfSecret(mounted) === sum) return { kind: "same", sum, change, together };
  const stays = `the files of ${name} cannot be copied into ${mountedName}`;
  if (mounted.immutable === true)
    return blocked(
      "restart-config-refused",
      `${stays}, which is immutable: make it anew without that, and with its annotations`,
    );
  const copy = copyOf(statefulSet, expected, mounted);
  const refused = memoryOf(context, key).refused.get(refusedKey(copy));
  if (refused?.copy === identityOf(copy, sum) && context.cluster.monotonicMs() - refused.sinceMs < refusedForMs)
    return blocked("restart-config-refused", `${stays}: ${refused.message}`);
  return { kind: "differs", sum, copy, change, together };
}

export const isEmpty = ({ data = {} }: Pick<SecretObject, "data">): boolean => Object.keys(data).length === 0;

/** Undefined for expected files that cannot be parsed. */
function changeOf({ metadata, data }: SecretObject, mounted: SecretObject): FilesChange | undefined {
  const [expected, before] = [readSettings(data), readSettings(mounted.data)];
  if ("unreadable" in expected) return undefined;
  const noted = knownSettings(mounted);
  return { mode: read(restartMode, metadata), expected, mounted: "unreadable" in before ? undefined : before, noted };
}

/** What is noted, and the settings of the files that are mounted now. What is malformed is added to `malformed`. */
export function knownSettings(mounted: SecretObject, malformed: Malformed[] = []): Map<string, Coordinating> {
  const [noted, now] = [notedSettings(mounted, malformed), readSettings(mounted.data)];
  return "unreadable" in now ? noted : noted.set(sumOfSecret(mounted), now);
}

/** By their sums the settings of files that were mounted. */
function notedSettings({ metadata }: SecretObject, malformed: Malformed[] = []): Map<string, Coordinating> {
  const noted = read(restartSettings, metadata, malformed) ?? new Map();
  return new Map([...noted].map(([sum, settings]) => [sum, new Map(Object.entries(settings))]));
}

/** A process that starts with such files alone could not join those that run with others. */
function blockedAlone(
  { expected, mounted, sum }: FilesSecrets & { readonly sum: string },
  change: FilesChange | undefined,
): Blocked | undefined {
  // Without mounted files no process runs.
  if (change === undefined || isEmpty(mounted)) return undefined;
  const before = [sumOfSecret(mounted), ...(change.started ?? [])];
  const why = before.some((one) => isOtherSum(one, sum)) ? whyTogether(change) : undefined;
  if (why === undefined) return undefined;
  const { name } = expected.metadata;
  const what = `no process starts alone with the files of ${name}, because ${why}, and it could not join the others`;
  const message = `${what}: write schedule-coordinated on all pods of the group, or rolling into ${restartMode.key} of that Secret`;
  return { guard: "restart-config-together", message };
}

/** The database could not read it either. A person who restarts by hand may know better. */
function blockedByMainFile({ metadata, data }: SecretObject): Blocked | undefined {
  const settings = readSettings(data);
  if (!("unreadable" in settings) || read(restartMode, metadata) === "by-hand") return undefined;
  const message = `the files of ${metadata.name} restart nothing: ${settings.unreadable}`;
  return { guard: "restart-config-unreadable", message };
}

const blocked = (guard: string, message: string): FilesState => ({ kind: "blocked", blocked: { guard, message } });

async function readSecret(
  { cluster }: Context,
  { namespace, restart }: StatefulSet,
  name: string,
  annotation: string,
): Promise<SecretObject | Blocked> {
  try {
    return await cluster.get("secrets", { namespace, name });
  } catch (error) {
    if (hasCode(error, 404)) {
      const message = `there is no Secret ${name}, which ${annotation} names: make it`;
      return { guard: "restart-config-missing", message };
    }
    if (!hasCode(error, 403)) throw error;
    const { expected, mounted } = restart?.files ?? {};
    const role = `write a Role with get on the Secrets ${expected} and ${mounted}, and patch on ${mounted}`;
    return { guard: "restart-config-refused", message: `${lackOf(error)}; ${role}` };
  }
}

/** Keys that the expected Secret has no more are removed. Kubernetes removes the mounted one with its StatefulSet. */
function copyOf({ name, uid }: StatefulSet, expected: SecretObject, mounted: SecretObject): FilesCopy {
  const { metadata, data } = mounted;
  const gone = Object.fromEntries(Object.keys(data ?? {}).map((key) => [key, null]));
  const owners = metadata.ownerReferences ?? [];
  const owner = { apiVersion: "apps/v1", kind: "StatefulSet", name, uid };
  return {
    ...{ name: metadata.name, uid: metadata.uid, resourceVersion: metadata.resourceVersion },
    data: { ...gone, ...expected.data },
    annotations: { [restartSettings.key]: noteOf(mounted, expected) },
    ownerReferences: owners.some((one) => one.uid === uid) ? owners : [...owners, owner],
  };
}

/** What notes the settings of mounted files, whose sum this is. */
export interface SettingsNote {
  readonly sum: string;
  readonly copy: FilesCopy;
}

/**
 * Notes the settings of a mounted Secret: a person may edit it later, and processes started with these files then still run.
 * Undefined where they are noted, or cannot be.
 */
export function noteToWrite(mounted: SecretObject): SettingsNote | undefined {
  const { annotations = {}, name, uid, resourceVersion, ownerReferences = [] } = mounted.metadata;
  const sum = sumOfSecret(mounted);
  if (isEmpty(mounted) || notedSettings(mounted).has(sum) || "unreadable" in readSettings(mounted.data))
    return undefined;
  const note = noteOf(mounted);
  if (annotations[restartSettings.key] === note) return undefined;
  const common = { name, uid, resourceVersion, ownerReferences };
  return { sum, copy: { ...common, data: {}, annotations: { [restartSettings.key]: note } } };
}

/** What is noted on a mounted Secret, and the settings of its files and of those that are to be mounted. */
function noteOf(mounted: SecretObject, expected?: SecretObject): string {
  const noted = new Map([...notedSettings(mounted)].map(([sum, settings]) => [sum, Object.fromEntries(settings)]));
  for (const secret of [mounted, ...(expected ? [expected] : [])]) {
    const [sum, settings] = [sumOfSecret(secret), readSettings(secret.data)];
    // The newest files stand last, because the first ones are forgotten. No process starts without files.
    noted.delete(sum);
    if (!("unreadable" in settings) && !isEmpty(secret)) noted.set(sum, Object.fromEntries(settings));
  }
  return formatSettings(noted);
}

function identityOf({ uid, resourceVersion }: FilesCopy, sum: string): string {
  return `${uid} ${resourceVersion} ${sum}`;
}

/** Writes the copy, unless the Secret has changed since it was read. Throws ClusterError. */
export async function writeCopy({ cluster }: Context, namespace: string, copy: FilesCopy, notAfterMs: number) {
  const { name, data, ...metadata } = copy;
  await cluster.patch("secrets", { namespace, name }, { metadata, data }, { notAfterMs });
}

/** Remembers for ten seconds why the API server has refused a copy, or until one of the Secrets changes. */
export function noteRefused(
  context: Context,
  key: GroupKey,
  { copy, sum }: { readonly copy: FilesCopy; readonly sum: string },
  error: ClusterError,
): void {
  const message = hasCode(error, 403) ? `${lackOf(error)}; write a Role with patch on ${copy.name}` : apiMessage(error);
  const sinceMs = context.cluster.monotonicMs();
  memoryOf(context, key).refused.set(refusedKey(copy), { copy: identityOf(copy, sum), message, sinceMs });
}

const refusedKey = (copy: FilesCopy): string => (isNote(copy) ? `note on ${copy.name}` : copy.name);

/** True where the API server has refused this note. It is not written again before the Secret changes: nothing waits for it. */
export function isRefused(context: Context, key: GroupKey, { sum, copy }: SettingsNote): boolean {
  return memoryOf(context, key).refused.get(refusedKey(copy))?.copy === identityOf(copy, sum);
}

/** For how long this process has known a pod to wait for files of this sum, in milliseconds. */
export function waitedFor(context: Context, key: GroupKey, podUid: string, sum: string): number {
  const { waiting } = memoryOf(context, key);
  const nowMs = context.cluster.monotonicMs();
  const known = waiting.get(podUid);
  if (known?.sum === sum) return nowMs - known.sinceMs;
  waiting.set(podUid, { sum, sinceMs: nowMs });
  return 0;
}
