/** The annotations by which the process of a pod is restarted inside its pod, and those of its StatefulSet that say how. */

import type { Metadata } from "../kubernetes/cluster.ts";
import { annotationOn, type Malformed, nonEmptyText, objectName, oneOf, read } from "./entry.ts";
import { parseQuestionUrl, type QuestionUrl } from "./health.ts";

const onStatefulSet = annotationOn("StatefulSet");

/** What a person writes, and what the function shows: `stop` and `start` while it does so. */
export const restartPhases = ["schedule", "stop", "start", "failed", "cancel"] as const;
export type RestartPhase = (typeof restartPhases)[number];

export const restartPhase = annotationOn("Pod")("elasticsearch.k8s.elastic.co/restart-phase", oneOf(restartPhases), {
  grammar: "schedule, to restart the process of the pod now, or cancel",
  fallback: "absent: nothing is to be done, or it is done; malformed: nothing is done",
  meaning: "the restart of the pod's process: wanted (schedule), stopping (stop), starting (start), or failed",
});

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

export const restartDatabase = onStatefulSet("sluice.dev/restart-database", oneOf(["none"]), {
  grammar: "none",
  fallback: "absent: none; malformed: no process of its pods is restarted",
  meaning: "which database the processes belong to; none: nothing is asked but the process manager",
});

export const restartEntries = [restartPhase, restartId, restartManager, restartManagerSecret, restartDatabase] as const;

/** How the processes of a StatefulSet's pods are restarted. */
export interface RestartSettings {
  /** Undefined where an annotation is missing or malformed: no process is restarted. */
  readonly manager: (ManagerUrl & { readonly secret: string }) | undefined;
  readonly malformed: readonly Malformed[];
}

/** Undefined for a StatefulSet that names no process manager. */
export function parseRestart(metadata: Metadata): RestartSettings | undefined {
  const isWritten = ({ key }: { readonly key: string }) => metadata.annotations?.[key] !== undefined;
  if (![restartManager, restartManagerSecret, restartDatabase].some(isWritten)) return undefined;
  const malformed: Malformed[] = [];
  const url = read(restartManager, metadata, malformed);
  const secret = read(restartManagerSecret, metadata, malformed);
  read(restartDatabase, metadata, malformed);
  for (const { key, grammar } of [restartManager, restartManagerSecret].filter((one) => !isWritten(one)))
    malformed.push({
      key,
      message: `annotation ${key} is missing, though others say how processes restart: write ${grammar}`,
    });
  const isComplete = url !== undefined && secret !== undefined && malformed.length === 0;
  return { manager: isComplete ? { ...url, secret } : undefined, malformed };
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
