/** What is known of the Secrets whose files processes start with: which a collector may remove, and what stood in them before. */

import { fieldsOf, isTime, parseFields } from "../base/fields.ts";
import { annotationOn, anyText, labelOn } from "./entry.ts";

/** The same key as a label of the Secret that the annotation names. */
export const collectedConfig = labelOn("Secret")("sluice.dev/restart-config", anyText, {
  grammar: "any label value",
  fallback: "the Secret is never removed",
  meaning: "the Secret is removed 15 minutes after the last StatefulSet and pod has ceased to name it",
});

/** A Secret with expected files that a StatefulSet of the group has named. */
export interface NamedConfig {
  readonly uid: string;
  /** Since when nothing names it, in milliseconds since the epoch; absent: a StatefulSet names it. */
  readonly unnamedMs?: number;
  /** How often it was found so, at most {@link mostChecks}; absent: never. */
  readonly checks?: number;
  /** When it was found so last, in milliseconds since the epoch; absent where nothing is counted, or an older version has. */
  readonly checkedMs?: number;
}

/** More reads that found a Secret unnamed are not counted. */
export const mostChecks = 3;

/** All or nothing: of an entry that is malformed nothing is known. */
function parseNamedConfigs(text: string): ReadonlyMap<string, NamedConfig> | undefined {
  const entries = Object.entries(parseFields(text) ?? { malformed: undefined });
  const parsed = entries.map(([name, value]) => [name, parseNamedConfig(value)] as const);
  const isWhole = (entry: readonly [string, NamedConfig | undefined]): entry is readonly [string, NamedConfig] =>
    entry[1] !== undefined;
  return parsed.every(isWhole) ? new Map(parsed) : undefined;
}

function parseNamedConfig(value: unknown): NamedConfig | undefined {
  const { uid, unnamed, checks, checked } = fieldsOf(value) ?? {};
  if (typeof uid !== "string" || uid === "") return undefined;
  if (unnamed === undefined && checks === undefined && checked === undefined) return { uid };
  const isCount = Number.isInteger(checks) && Number(checks) >= 1 && Number(checks) <= mostChecks;
  if (!isTime(unnamed) || !isCount || (checked !== undefined && !isTime(checked))) return undefined;
  return { uid, unnamedMs: unnamed, checks: Number(checks), ...(checked === undefined ? {} : { checkedMs: checked }) };
}

export function formatNamedConfigs(configs: ReadonlyMap<string, NamedConfig>): string {
  const entries = [...configs].map(([name, { uid, unnamedMs, checks, checkedMs }]) => [
    name,
    { uid, unnamed: unnamedMs, checks, checked: checkedMs },
  ]);
  return JSON.stringify(Object.fromEntries(entries));
}

export const namedConfigs = annotationOn("Lease")("sluice.dev/restart-configs", parseNamedConfigs, {
  grammar:
    'JSON: the names of Secrets, each with {"uid": UID} and perhaps {"unnamed": MS since the epoch, "checks": 1 to 3, "checked": MS}',
  fallback: "absent or malformed: no Secret is removed that is not named again",
  meaning:
    "the Secrets with expected files that StatefulSets of the group have named, and since when nothing names one",
});

/** The settings of files that all nodes must have in common, by key. */
export type NotedSettings = Readonly<Record<string, string>>;

/** More bytes are not written: the oldest files are forgotten first. */
const mostNotedBytes = 3_500;

/** All or nothing, as above. */
function parseSettings(text: string): ReadonlyMap<string, NotedSettings> | undefined {
  const entries = Object.entries(parseFields(text) ?? { malformed: undefined });
  const isNoted = (entry: [string, unknown]): entry is [string, NotedSettings] => {
    const fields = fieldsOf(entry[1]);
    return fields !== undefined && Object.values(fields).every((value) => typeof value === "string");
  };
  return entries.every(isNoted) ? new Map(entries) : undefined;
}

/** The last ones that there is room for, in their order. */
export function formatSettings(noted: ReadonlyMap<string, NotedSettings>): string {
  for (let entries = [...noted]; ; entries = entries.slice(1)) {
    const text = JSON.stringify(Object.fromEntries(entries));
    if (entries.length === 0 || Buffer.byteLength(text) <= mostNotedBytes) return text;
  }
}

export const restartSettings = annotationOn("Secret", { isWrittenByUs: true })(
  "sluice.dev/restart-settings",
  parseSettings,
  {
    grammar: "JSON: the sums of files, each with some of their settings by key",
    fallback: "each process is taken to run with the settings that are mounted",
    meaning:
      "what the files that are or were mounted set of what all nodes must have in common, because processes may still run with them; written by us",
  },
);
