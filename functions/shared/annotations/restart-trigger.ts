/** The annotation by which a GitOps tool restarts the processes of a StatefulSet, and what a ledger remembers of it. */

import { fieldsOf, parseFields } from "../base/fields.ts";
import { annotationOn } from "./entry.ts";

/** What stands in a trigger, and whether all processes of the group are to be down at once. */
export interface RestartTrigger {
  readonly text: string;
  readonly isCoordinated: boolean;
}

const coordinated = "coordinated:";
/** A ledger remembers it, and has room for many StatefulSets. */
const longestTrigger = 253;

function parseTrigger(text: string): RestartTrigger | undefined {
  const trimmed = text.trim();
  const isCoordinated = trimmed.startsWith(coordinated);
  const value = isCoordinated ? trimmed.slice(coordinated.length) : trimmed;
  return value.trim() === "" || trimmed.length > longestTrigger ? undefined : { text: trimmed, isCoordinated };
}

export const restartTrigger = annotationOn("StatefulSet")("sluice.dev/restart-trigger", parseTrigger, {
  grammar: `any text of 1 to ${longestTrigger} characters, with ${coordinated} before it for all pods of the group at once`,
  fallback: "no process restarts by it",
  meaning:
    "each new value restarts the processes of the StatefulSet's pods in turn, or of all pods of its group together; taking it off changes nothing",
});

/** The trigger of a StatefulSet for which its processes were last asked to restart; empty: it had none. */
export interface KnownTrigger {
  readonly uid: string;
  readonly text: string;
}

/** All or nothing: of an entry that is malformed nothing is known. */
function parseKnownTriggers(text: string): ReadonlyMap<string, KnownTrigger> | undefined {
  const entries = Object.entries(parseFields(text) ?? { malformed: undefined });
  const parsed = entries.flatMap(([name, value]) => {
    const { uid, text: known } = fieldsOf(value) ?? {};
    return typeof uid === "string" && uid !== "" && typeof known === "string"
      ? [[name, { uid, text: known }] as const]
      : [];
  });
  return parsed.length === entries.length ? new Map(parsed) : undefined;
}

export function formatKnownTriggers(triggers: ReadonlyMap<string, KnownTrigger>): string {
  return JSON.stringify(Object.fromEntries(triggers));
}

export const knownTriggers = annotationOn("Lease")("sluice.dev/restart-triggers", parseKnownTriggers, {
  grammar: 'JSON: the names of StatefulSets, each with {"uid": UID, "text": the trigger, or an empty text}',
  fallback: "absent or malformed: what stands in a trigger now restarts nothing",
  meaning: "for which trigger the processes of each StatefulSet were last asked to restart",
});
