/**
 * Every label, annotation and event reason that Sluice reads or writes: its key, its grammar, its default, its meaning.
 * No other file spells a key.
 */
import { fieldsOf, isTime, parseFields } from "../base/fields.ts";
import { parseBoolean } from "../base/settings.ts";
import { annotationOn, anyText, labelOn, onlyTrue } from "./entry.ts";
import { fencingEntries } from "./fencing.ts";
import { foundationEntries } from "./foundationdb.ts";
import { questionEntries } from "./health.ts";
import { parking } from "./parking.ts";
import { rebalanceEntries } from "./rebalancing.ts";
import { restartEntries } from "./restart.ts";
import { namedConfigs } from "./restart-files.ts";
import { knownTriggers } from "./restart-trigger.ts";
import * as scaling from "./scaling.ts";
import { skipEntries } from "./skip-labels.ts";
import { suspensionEntries } from "./suspension.ts";

export { type Annotation, type Malformed, read } from "./entry.ts";
export { parking } from "./parking.ts";

/** A budget as a user writes it: pods, or percent of `spec.replicas`. */
export type Allowance = { readonly pods: number } | { readonly percent: number };

/** As rollout-operator has it: a base-10 integer or one followed by `%`, white space around it ignored. */
function parseAllowance(text: string): Allowance | undefined {
  const match = /^([+-]?\d+)(%?)$/.exec(text.trim());
  const amount = Number(match?.[1]);
  if (match === null || !Number.isSafeInteger(amount) || amount <= 0) return undefined;
  if (match[2] === "") return { pods: amount };
  return amount > 100 ? undefined : { percent: amount };
}

function parseRevision(text: string): number | undefined {
  const revision = Number(text);
  return /^\d+$/.test(text) && Number.isSafeInteger(revision) ? revision : undefined;
}

/** Milliseconds since the epoch, by the names of StatefulSets. */
function parseTimes(text: string): Readonly<Record<string, number>> | undefined {
  const times = parseFields(text);
  const isTable = times !== undefined && Object.values(times).every(isTime);
  return isTable ? (times as Readonly<Record<string, number>>) : undefined;
}

/** Milliseconds since the epoch, as digits. */
function parseMs(text: string): number | undefined {
  const ms = Number(text);
  return /^\d+$/.test(text) && isTime(ms) ? ms : undefined;
}

/** When the suspended volumes of a group were observed without a gap, in milliseconds since the epoch. */
export interface Looks {
  readonly sinceMs: number;
  readonly untilMs: number;
}

function parseLooks(text: string): Looks | undefined {
  const { since, until } = parseFields(text) ?? {};
  return isTime(since) && isTime(until) && since <= until ? { sinceMs: since, untilMs: until } : undefined;
}

export function formatLooks({ sinceMs, untilMs }: Looks): string {
  return JSON.stringify({ since: sinceMs, until: untilMs });
}

function parseNames(text: string): readonly string[] {
  try {
    const names: unknown = JSON.parse(text);
    return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
  } catch {
    return [];
  }
}

function parseHasReplicas(text: string): boolean | undefined {
  try {
    const { spec } = fieldsOf(JSON.parse(text)) ?? {};
    return typeof fieldsOf(spec)?.replicas === "number";
  } catch {
    return undefined;
  }
}

const onStatefulSet = annotationOn("StatefulSet");
/** An annotation of the Lease that is a ledger. */
const inLedger = annotationOn("Lease");

export const rolloutGroup = labelOn("StatefulSet")("rollout-group", anyText, {
  grammar: "any label value, also the empty one",
  fallback: "without the label a StatefulSet is left alone",
  meaning: "StatefulSets with the same value are the zones of one group",
});

export const rolloutMaxUnavailable = onStatefulSet("rollout-max-unavailable", parseAllowance, {
  grammar: "an integer above 0, or 1% to 100% of spec.replicas, rounded down, at least 1",
  fallback: "1",
  meaning: "how many pods of the zone may be down at once during a rollout",
});

export const rolloutPaused = onStatefulSet("grafana.com/rollout-paused", parseBoolean, {
  grammar: "true or false",
  fallback: "false",
  meaning: "no pod of the zone is replaced; while pods of it are not ready, no other zone is rolled either",
});

export const controllerRevisionHash = labelOn("Pod")("controller-revision-hash", anyText, {
  grammar: "the name of a ControllerRevision",
  fallback: "a pod without the label is outdated",
  meaning: "the revision that the pod was made from; written by Kubernetes",
});

export const podName = labelOn("Pod")("statefulset.kubernetes.io/pod-name", anyText, {
  grammar: "the name of the pod",
  fallback: "a pod without the label was made by no StatefulSet",
  meaning: "the pod was made for a StatefulSet, whether or not it still has it; written by Kubernetes",
});

export const managedBy = labelOn("Lease")("app.kubernetes.io/managed-by", anyText, {
  grammar: "sluice",
  fallback: "a Lease without it is no ledger",
  meaning: "marks the ledgers",
});

export const ledgerGroup = inLedger("sluice.dev/group", anyText, {
  grammar: "any text",
  fallback: "a Lease without it is no ledger",
  meaning: "the group whose ledger this Lease is (rule R1)",
});

export const ledgerFormat = inLedger("sluice.dev/format", anyText, {
  grammar: "1",
  fallback: "absent: 1, as before formats had numbers; any other: nothing is permitted, and nothing written over it",
  meaning: "how the ledger is to be read: a version of Sluice that does not know the format leaves it alone (rule R2)",
});

export const settledThrough = inLedger("sluice.dev/settled-through", parseRevision, {
  grammar: "a pod resourceVersion",
  fallback: "absent: the first decision uses a consistent LIST; malformed: nothing is permitted",
  meaning: "the pod revision up to which the world has been accounted for (rule R2)",
});

export const membersThrough = inLedger("sluice.dev/members-through", parseRevision, {
  grammar: "a StatefulSet resourceVersion",
  fallback: "absent: which StatefulSets there are is taken from what is known; malformed: nothing is permitted",
  meaning: "the StatefulSet revision from which on every zone that the last decisions counted is known (rule R5)",
});

export const members = inLedger("sluice.dev/members", parseNames, {
  grammar: 'JSON: ["STATEFULSET", …]',
  fallback:
    "absent: the zones that are in the group; malformed: no zone, so that each of them counts as one that joins",
  meaning: "the zones that the last decision counted: one that joins is waited for (rule R4)",
});

export const reservations = inLedger("sluice.dev/reservations", anyText, {
  grammar:
    'JSON: {"STATEFULSET": {"ORDINAL": ["POD UID", "FUNCTION", STAMP in ms since the epoch, SINCE where renewed]}}',
  fallback: "absent: none; malformed: nothing is permitted",
  meaning: "the pods that may be taken down now or have been and are not back yet (rule R2)",
});

export const claims = inLedger("sluice.dev/claims", anyText, {
  grammar:
    'one line of JSON each: {"id", "kind", "zone", "members": "0-4,7", "uids": {"NAME": "UID"}, "readyMs": {"POD": MS}, "containers": {"POD": ["ID"]}, "mode", "processes": {"POD": "ID"}, "sum", "epoch", "hold", "by", "stampMs", "sinceMs", "phase", "terms": "asked" or "announced", "anchor": {"resource", "namespace", "name", "annotation"}}',
  fallback: "absent: none; malformed: nothing is permitted; of an unknown kind: its zone counts as down",
  meaning: "what is reserved besides pods that go: a scale-down, a volume, a process, a node (rules R17 and R18)",
});

export const refusals = inLedger("sluice.dev/refusals", anyText, {
  grammar:
    'JSON: {"POD UID": ["POD", "MESSAGE", STAMP in ms since the epoch]}, or {"POD UID/FUNCTION": [..., "FUNCTION"]}',
  fallback: "none",
  meaning:
    "deletions that the API server refused for good, and evictions that were allowed and never carried out; such a pod is not tried again for ten minutes",
});

export const verdicts = inLedger("sluice.dev/verdicts", anyText, {
  grammar: 'JSON: {"FUNCTION": {"guard", "zone", "sentence", "since", "at"}}',
  fallback: "none",
  meaning: "what each function last said of the group, and since when",
});

export const lastDownscales = inLedger("sluice.dev/last-downscales", parseTimes, {
  grammar: 'JSON: {"STATEFULSET": MS since the epoch}',
  fallback: "absent: none since the ledger was made; malformed: no zone is made smaller by a review",
  meaning: "when each StatefulSet was last made smaller: the next zone waits for that long",
});

export const looks = inLedger("sluice.dev/looks", parseLooks, {
  grammar: 'JSON: {"since": MS since the epoch, "until": MS}',
  fallback:
    "absent or malformed: nothing was seen before now, so that the time of every suspended volume counts from now",
  meaning:
    "since when the suspended volumes of the group have been observed without a gap, and when that was last noted",
});

export const lastRemoval = inLedger("sluice.dev/last-removal", parseMs, {
  grammar: "MS since the epoch",
  fallback: "absent: by what pods and volume claims say that are still there; malformed: now",
  meaning: "when the last removal of a pod or a volume ended: the next one waits from then",
});

export const lastRestart = inLedger("sluice.dev/last-restart", parseMs, {
  grammar: "MS since the epoch",
  fallback: "absent or malformed: no restart has ended of late",
  meaning: "when the last restart of a process ended: for two minutes its database is asked every ten seconds",
});

const labelOfConfiguration = labelOn("WebhookConfiguration");

export const injectCertificateAuthority = labelOfConfiguration("grafana.com/inject-rollout-operator-ca", onlyTrue, {
  grammar: "true",
  fallback: "its caBundle is left alone",
  meaning: "the authorities of our certificate are written into the caBundle of each of its webhooks",
});

export const webhookNamespace = labelOfConfiguration("grafana.com/namespace", anyText, {
  grammar: "the name of a namespace",
  fallback: "the configuration is left alone",
  meaning: "the namespace of those who answer its webhooks: others leave it alone",
});

export const reviewKey = labelOfConfiguration("sluice.dev/review-key", onlyTrue, {
  grammar: "true",
  fallback: "the paths of its webhooks are left alone",
  meaning: "the paths of its webhooks begin with a key that only API servers know",
});

/** Only functions that suspend volumes or collect ledgers read and write these. */
export const suspensionTimes = [looks, lastRemoval] as const;

/** Written by `kubectl apply`: whether the manifest has a number of replicas. */
export const lastApplied = onStatefulSet("kubectl.kubernetes.io/last-applied-configuration", parseHasReplicas, {
  grammar: "a manifest in JSON",
  fallback: "what the manifest said is not known",
  meaning: "the manifest that was last applied; written by kubectl",
  isLong: true,
});

/** The annotations of a ledger, whichever function writes them. */
export const ledgerEntries = [
  ledgerGroup,
  ledgerFormat,
  settledThrough,
  membersThrough,
  members,
  reservations,
  refusals,
] as const;

export const annotationTable = [
  rolloutGroup,
  rolloutMaxUnavailable,
  rolloutPaused,
  controllerRevisionHash,
  podName,
  managedBy,
  ...ledgerEntries,
  claims,
  verdicts,
  lastDownscales,
  lastRestart,
  ...suspensionTimes,
  injectCertificateAuthority,
  webhookNamespace,
  reviewKey,
  lastApplied,
  ...scaling.scalingEntries,
  ...questionEntries,
  ...skipEntries,
  ...rebalanceEntries,
  ...restartEntries,
  parking,
  namedConfigs,
  knownTriggers,
  ...suspensionEntries,
  ...foundationEntries,
  ...fencingEntries,
] as const;

export type AnyEntry = (typeof annotationTable)[number];
