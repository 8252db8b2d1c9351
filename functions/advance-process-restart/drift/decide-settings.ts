/** Which settings of a main file all processes of a group must have in common, and whether they change. Pure. */

import { type RestartMode, restartMode } from "../../shared/annotations/restart.ts";

/** The values of one Secret's main files, by key; a key that no file has is absent. */
export type Coordinating = ReadonlyMap<string, string>;

/**
 * Nodes that differ in one of these do not join each other. By key the value of a file that does not have it; undefined where it
 * depends on the version of the database.
 */
const defaults: Readonly<Record<string, string | undefined>> = {
  "cluster.name": undefined,
  "xpack.security.enabled": undefined,
  "xpack.security.transport.ssl.enabled": "false",
  "xpack.license.self_generated.type": "basic",
  "plugins.security.disabled": "false",
  "plugins.security.ssl_only": "false",
  "plugins.security.ssl.transport.enabled": "true",
};

/** The values of a main file, as a parser of YAML has read it. Notation does not matter: `a.b` is the same as `b` within `a`. */
export function coordinatingOf(document: unknown): Coordinating {
  const found = new Map<string, string>();
  for (const key of Object.keys(defaults)) {
    const [value] = valuesAt(document, key);
    if (value !== undefined) found.set(key, value);
  }
  return found;
}

/** Each step takes a part of the key away, so that an alias which leads back to itself ends as well. */
function valuesAt(node: unknown, key: string): string[] {
  if (key === "") return node === null || node === undefined ? [] : [textOf(node)];
  if (typeof node !== "object" || node === null) return [];
  const parts = key.split(".");
  return parts.flatMap((_, index) => {
    const [own, rest] = [parts.slice(0, index + 1).join("."), parts.slice(index + 1).join(".")];
    return Object.hasOwn(node, own) ? valuesAt((node as Record<string, unknown>)[own], rest) : [];
  });
}

function textOf(value: unknown): string {
  return typeof value === "object" ? "an object" : String(value);
}

/** The first key with another value in the second; undefined where they agree. */
export function differingKey(one: Coordinating, other: Coordinating): string | undefined {
  return Object.keys(defaults).find((key) => settingOf(one, key) !== settingOf(other, key));
}

/** The settings with which the processes of one StatefulSet run, as far as they are known. */
export interface FilesBefore {
  /** Undefined where the mounted main file cannot be parsed. */
  readonly mounted: Coordinating | undefined;
  /** The same of files that are or were mounted, by their sums, as far as it is known. */
  readonly noted?: ReadonlyMap<string, Coordinating>;
  /** The sums that processes of the StatefulSet were started with, as far as they are known. */
  readonly started?: readonly string[];
}

/** What of one StatefulSet decides how its processes restart for other files. */
export interface FilesChange extends FilesBefore {
  /** Absent: the settings that change decide. */
  readonly mode?: RestartMode | undefined;
  readonly expected: Coordinating;
}

/**
 * What the processes run with. After a restart of all that was called off this is not what is mounted. Where nothing is noted of
 * their files, or no process is known, it is taken to be that.
 */
function settingsBefore({ mounted, noted, started = [] }: FilesBefore): readonly Coordinating[] {
  const before = started.length === 0 ? [mounted] : started.map((sum) => noted?.get(sum) ?? mounted);
  return before.filter((settings) => settings !== undefined);
}

/** True where it matters with which files the processes were started: they may have other settings than are mounted. */
export function dependsOnStarted({ mounted, noted = new Map() }: FilesBefore): boolean {
  return [...noted.values()].some((settings) => mounted === undefined || differingKey(settings, mounted) !== undefined);
}

/** True where the mounted main file cannot be parsed, and nothing is noted of what a process that runs was started with. */
export function isUnknownBefore({ mounted, noted = new Map(), started = [] }: FilesBefore): boolean {
  if (mounted !== undefined) return false;
  return started.length === 0 || started.some((sum) => !noted.has(sum));
}

/** What nothing shows: with which value of the key the process runs that was started with the files of this sum. */
export interface UnknownSetting {
  readonly sum: string;
  readonly key: string;
}

/**
 * Undefined where it matters for no process with which files it was started, or this is known of each. It matters where earlier
 * files had another value than is expected now: the process may run with that, and one with the expected files could not join it.
 */
export function unknownSetting({ expected, noted = new Map(), started = [] }: FilesChange): UnknownSetting | undefined {
  const sum = started.find((one) => !noted.has(one));
  if (sum === undefined) return undefined;
  const keys = [...noted.values()].map((earlier) => differingKey(expected, earlier));
  const key = keys.find((one) => one !== undefined);
  return key === undefined ? undefined : { sum, key };
}

/**
 * Why processes must restart together for these files; undefined where each may restart alone. `others`: those of the group that
 * a process which starts with these files is to join. After a restart of all that was called off, a rollout may have given one
 * StatefulSet the new settings, while another one still runs with those of before.
 */
export function whyTogether(change: FilesChange, others: readonly FilesBefore[] = []): string | undefined {
  const { mode, expected } = change;
  if (mode === "rolling") return undefined;
  if (mode === "coordinated") return `${restartMode.key} says ${mode}`;
  const key = changedKey(expected, [change, ...others]);
  return key && `they change ${key}`;
}

/** The first key with another value than some of these processes run with; undefined where all have the expected ones. */
export function changedKey(expected: Coordinating, processes: readonly FilesBefore[]): string | undefined {
  const keys = processes.flatMap(settingsBefore).map((settings) => differingKey(expected, settings));
  return keys.find((one) => one !== undefined);
}

/** Why a pod of this name, which runs with another value of the key, keeps others from a restart together. */
export function whyApart(name: string, key: string): string {
  return `${name} is not in the restart of the others, which could not join it, because it runs with another ${key}`;
}

/** The first key that some of these files change, and that has another value in others; undefined where all agree. */
export function disputedKey(changes: readonly FilesChange[]): string | undefined {
  return Object.keys(defaults).find((key) => {
    const isChanged = changes.some((change) =>
      settingsBefore(change).some((before) => settingOf(change.expected, key) !== settingOf(before, key)),
    );
    return isChanged && new Set(changes.map(({ expected }) => settingOf(expected, key))).size > 1;
  });
}

/** A licence other than `basic` is as any other such. */
function settingOf(settings: Coordinating, key: string): string | undefined {
  const value = settings.get(key) ?? defaults[key];
  return key === "xpack.license.self_generated.type" && value !== "basic" ? "other" : value;
}
