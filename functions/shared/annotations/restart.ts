/** The annotations by which the process of a pod is restarted inside its pod, and those of its StatefulSet that say how. */

import type { Metadata } from "../kubernetes/cluster.ts";
import { annotationOn, type Malformed, nonEmptyText, objectName, oneOf, read } from "./entry.ts";
import { parseQuestionUrl, type QuestionUrl } from "./health.ts";
import { restartSettings } from "./restart-files.ts";
import { type RestartTrigger, restartTrigger } from "./restart-trigger.ts";

const onStatefulSet = annotationOn("StatefulSet");

/** What a person writes, and what the function shows: `stop` and `start` while it does so. */
export const restartPhases = [
  "schedule",
  "schedule-rolling",
  "schedule-coordinated",
  "stop",
  "stop-coordinated",
  "start",
  "start-coordinated",
  "failed",
  "cancel",
] as const;
export type RestartPhase = (typeof restartPhases)[number];

export const restartPhase = annotationOn("Pod")("elasticsearch.k8s.elastic.co/restart-phase", oneOf(restartPhases), {
  grammar:
    "schedule, to restart the process of the pod now, schedule-rolling, in its turn, schedule-coordinated, together with all others that have it, or cancel",
  fallback: "absent: nothing is to be done, or it is done; malformed: nothing is done",
  meaning:
    "the restart of the pod's process: wanted now (schedule), in its turn (schedule-rolling) or together with others (schedule-coordinated), stopping (stop), starting (start), or failed; on a StatefulSet, schedule-rolling or schedule-coordinated is written to each of its pods, and then taken off",
});

/** The same key on a StatefulSet, which all of its pods get. */
export const restartPhaseOfAll: typeof restartPhase = {
  ...restartPhase,
  on: "StatefulSet",
  grammar:
    "schedule-rolling, to restart the processes of its pods one after the other, or schedule-coordinated, together",
  fallback: "no pod of it is to restart",
  parse: oneOf(["schedule-rolling", "schedule-coordinated"]),
};

export const restartId = annotationOn("Pod", { isWrittenByUs: true })("sluice.dev/restart-id", nonEmptyText, {
  grammar: "the id of a claim",
  fallback: "absent: no restart of the pod is under way",
  meaning: "the restart that is under way, the anchor of its claim (rule R10a); written by us",
});

/** Where the process manager of a pod answers: its host is the pod's own. */
export type ManagerUrl = Pick<QuestionUrl, "scheme" | "port">;

function parseManagerUrl(text: string): ManagerUrl | undefined {
  const url = parseQuestionUrl(text);
  return url?.path === "/" ? { scheme: url.scheme, port: url.port } : undefined;
}

export const restartReason = annotationOn("Pod", { isWrittenByUs: true })("sluice.dev/restart-reason", nonEmptyText, {
  grammar:
    "drift, rolling or coordinated, instead of PHASE or not, and the sum of files; or asked, and that sum; or trigger, and its value",
  fallback: "absent: a person has asked for the restart",
  meaning: "for which files, or which trigger, the pod was last asked to restart: once for each; written by us",
});

/** How the processes of a Secret's files restart when these change. */
export const restartModes = ["rolling", "coordinated", "by-hand"] as const;
export type RestartMode = (typeof restartModes)[number];

export const restartMode = annotationOn("Secret")("sluice.dev/restart-mode", oneOf(restartModes), {
  grammar: restartModes.join(", "),
  fallback: "absent: the settings that change decide; malformed: by-hand",
  meaning: "how processes restart when the files of this Secret change; by-hand: not without a person",
});

export const restartManager = onStatefulSet("sluice.dev/restart-manager", parseManagerUrl, {
  grammar: "http://:PORT or https://:PORT, without a host: it is the pod's own",
  fallback: "no process of its pods is restarted",
  meaning: "at which port the process manager of each pod answers",
});

export const restartManagerSecret = onStatefulSet("sluice.dev/restart-manager-secret", objectName, {
  grammar: "the name of a Secret in the namespace of the StatefulSet",
  fallback: "no process of its pods is restarted",
  meaning: "its key token is what a process manager is called with; over https its key ca.crt, in PEM, is trusted",
});

/** The databases that can be asked. */
export const databaseNames = ["opensearch", "elasticsearch"] as const;
export type DatabaseName = (typeof databaseNames)[number];

export const restartDatabase = onStatefulSet("sluice.dev/restart-database", oneOf([...databaseNames, "none"]), {
  grammar: [...databaseNames, "none"].join(", "),
  fallback: "absent: none; malformed: no process of its pods is restarted",
  meaning: "which database the processes belong to; none: nothing is asked but the process manager",
});

/** One or two addresses with a blank between, in the order in which they are tried. */
function parseDatabaseUrls(text: string): readonly ManagerUrl[] | undefined {
  const urls = text.trim().split(/\s+/).map(parseManagerUrl);
  const isWhole = urls.length <= 2 && urls.every((url) => url !== undefined);
  return isWhole ? urls : undefined;
}

export const restartDatabaseUrl = onStatefulSet("sluice.dev/restart-database-url", parseDatabaseUrls, {
  grammar: "http://:PORT, https://:PORT, or both with a blank between, without a host: it is the pod's own",
  fallback: "no process of its pods is restarted where a database is named",
  meaning: "at which port the database answers in each pod; of two addresses only https gets the password",
});

export const restartDatabaseSecret = onStatefulSet("sluice.dev/restart-database-secret", objectName, {
  grammar: "the name of a Secret in the namespace of the StatefulSet",
  fallback: "absent: the database is asked without a password; malformed: no process of its pods is restarted",
  meaning:
    "its keys username and password are what the database is asked with; over https its key ca.crt, in PEM, is trusted",
});

/** The rules about the database that a restart in its turn waits for, in the order in which they are checked. */
export const databaseRules = ["database-settled", "started-copy", "masters-whole", "role-elsewhere"] as const;
export type DatabaseRule = (typeof databaseRules)[number];

/** The same of a restart of all processes together. */
export const togetherRules = ["members-elsewhere"] as const;
export type UncheckedRule = DatabaseRule | (typeof togetherRules)[number];

const switchedRules: readonly UncheckedRule[] = [...databaseRules, ...togetherRules];

function parseUnchecked(text: string): ReadonlySet<UncheckedRule> | undefined {
  if (text.trim() === "*") return new Set(switchedRules);
  const names = text.split(",").map((one) => switchedRules.find((name) => name === one.trim()));
  return names.includes(undefined) ? undefined : new Set(names as readonly UncheckedRule[]);
}

export const restartUnchecked = onStatefulSet("sluice.dev/restart-unchecked", parseUnchecked, {
  grammar: `*, or some of ${switchedRules.join(", ")}, with a comma between`,
  fallback: "every rule about the database is checked",
  meaning:
    "which rules about the database no restart waits for: the last one is of restarts together, and others of those in turn",
});

export const restartConfig = onStatefulSet("sluice.dev/restart-config", objectName, {
  grammar: "the name of a Secret in the namespace of the StatefulSet",
  fallback: "absent: processes start with the files that are mounted; malformed: no process of its pods is restarted",
  meaning: "the files with which processes are to start, as their user writes them; only together with restart-mounted",
});

export const restartMounted = onStatefulSet("sluice.dev/restart-mounted", objectName, {
  grammar: "the name of a Secret in the namespace of the StatefulSet",
  fallback: "absent: processes start with the files that are mounted; malformed: no process of its pods is restarted",
  meaning: "the Secret that the pods mount: before a restart it gets the files of restart-config",
});

export const restartEntries = [
  restartConfig,
  restartMounted,
  restartPhase,
  restartId,
  restartReason,
  restartMode,
  restartSettings,
  restartManager,
  restartManagerSecret,
  restartDatabase,
  restartDatabaseUrl,
  restartDatabaseSecret,
  restartUnchecked,
  restartTrigger,
] as const;

/** Which database the pods belong to, and how it is asked. */
export interface DatabaseSettings {
  readonly product: DatabaseName;
  /** One or two. */
  readonly urls: readonly ManagerUrl[];
  /** Undefined: it is asked without a password. */
  readonly secret: string | undefined;
}

/** How the processes of a StatefulSet's pods are restarted. */
export interface RestartSettings {
  /** Undefined where an annotation is missing or malformed: no process is restarted. */
  readonly manager: (ManagerUrl & { readonly secret: string }) | undefined;
  /** Absent where no database is named, or its annotations are malformed. */
  readonly database?: DatabaseSettings;
  /** Two Secrets, by name; absent where they are not named. */
  readonly files?: { readonly expected: string; readonly mounted: string };
  /** The rules about the database that are switched off. */
  readonly unchecked: ReadonlySet<UncheckedRule>;
  /** The phase that stands on it, and that each of its pods gets. */
  readonly phaseOfAll?: RestartPhase;
  /** Absent where there is none, or where it is malformed. */
  readonly trigger?: RestartTrigger;
  readonly malformed: readonly Malformed[];
}

type IsWritten = (entry: { readonly key: string }) => boolean;

/** Undefined for a StatefulSet that names no process manager. */
export function parseRestart(metadata: Metadata): RestartSettings | undefined {
  const isWritten: IsWritten = ({ key }) => metadata.annotations?.[key] !== undefined;
  if (!restartEntries.some((entry) => entry.on === "StatefulSet" && isWritten(entry))) return undefined;
  const malformed: Malformed[] = [];
  const url = read(restartManager, metadata, malformed);
  const secret = read(restartManagerSecret, metadata, malformed);
  const database = parseDatabase(metadata, isWritten, malformed);
  const [expected, mounted] = [read(restartConfig, metadata, malformed), read(restartMounted, metadata, malformed)];
  const hasFiles = isWritten(restartConfig) || isWritten(restartMounted);
  const needed = [restartManager, restartManagerSecret, ...(hasFiles ? [restartConfig, restartMounted] : [])];
  for (const entry of needed) if (!isWritten(entry)) malformed.push(missing(entry));
  const isComplete = url !== undefined && secret !== undefined && malformed.length === 0;
  // What follows has a fallback with which processes restart.
  const unchecked = read(restartUnchecked, metadata, malformed) ?? new Set();
  const phaseOfAll = read(restartPhaseOfAll, metadata, malformed);
  const trigger = read(restartTrigger, metadata, malformed);
  return {
    manager: isComplete ? { ...url, secret } : undefined,
    ...(database && { database }),
    ...(expected !== undefined && mounted !== undefined && { files: { expected, mounted } }),
    unchecked,
    ...(phaseOfAll && { phaseOfAll }),
    ...(trigger && { trigger }),
    malformed,
  };
}

/** What is malformed or missing is added to `malformed`. */
function parseDatabase(metadata: Metadata, isWritten: IsWritten, malformed: Malformed[]): DatabaseSettings | undefined {
  const product = read(restartDatabase, metadata, malformed);
  const urls = read(restartDatabaseUrl, metadata, malformed);
  const secret = read(restartDatabaseSecret, metadata, malformed);
  const isHow = isWritten(restartDatabaseUrl) || isWritten(restartDatabaseSecret);
  if (isHow && !isWritten(restartDatabase)) malformed.push(missing(restartDatabase));
  if (product === undefined || product === "none") return undefined;
  if (!isWritten(restartDatabaseUrl)) malformed.push(missing(restartDatabaseUrl));
  return urls && { product, urls, secret };
}

function missing({ key, grammar }: { readonly key: string; readonly grammar: string }): Malformed {
  return { key, message: `annotation ${key} is missing, though others say how processes restart: write ${grammar}` };
}

/** The restart of a pod's process, as its annotations show it. */
export interface PodRestart {
  /** As it is written: it may be no phase at all. */
  readonly text: string | undefined;
  readonly phase: RestartPhase | undefined;
  readonly id: string | undefined;
}

/** Undefined for a pod without a phase and without an id. */
export function parsePodRestart(metadata: Metadata): PodRestart | undefined {
  const text = metadata.annotations?.[restartPhase.key]?.slice(0, 63);
  const [phase, id] = [read(restartPhase, metadata), read(restartId, metadata)];
  return text === undefined && id === undefined ? undefined : { text, phase, id };
}
