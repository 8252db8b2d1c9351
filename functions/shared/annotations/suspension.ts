/** The annotations that keep a volume for a while after its pod has gone, and those that record the progress. */

import { isObjectName } from "../base/dns-names.ts";
import { escapeControls } from "../base/escape-control.ts";
import { parseBoolean } from "../base/settings.ts";
import { parsePrometheusDuration, parseTime } from "../clock/durations.ts";
import { mostEntries } from "./bounds.ts";
import { drainEntries } from "./drain.ts";
import { annotationOn, labelOn, nonEmptyText, oneOf, onlyTrue } from "./entry.ts";
import { labelKey, labelValue, parseLabels } from "./parse-labels.ts";

/** `Suspending`: its pod is still to go. `Suspended`: the pod is gone, and the time runs. `Removing`: nothing brings it back. */
const states = ["Suspending", "Suspended", "Removing"] as const;
export type SuspensionState = (typeof states)[number];
/** How many may go at one time: all due ones, a zone, one member, or none. */
const modes = ["All", "Zone", "Group", "None"] as const;
export type RemovalMode = (typeof modes)[number];

/** The guard that blocks a volume claim, and its message. */
export interface SuspensionMessage {
  readonly guard: string;
  readonly text: string;
}

/** As rollout-operator's and FoundationDB's users write it: a number without a unit is seconds. */
const bareSeconds = /^\d{1,12}$/;

function parseDuration(text: string): number | undefined {
  return bareSeconds.test(text) ? Number(text) * 1_000 : parsePrometheusDuration(text);
}

/** A negative one counts as the default, as for FoundationDB's operator. */
function parseWait(text: string): number | undefined {
  if (!text.startsWith("-")) return parseDuration(text);
  return parseDuration(text.slice(1)) === undefined ? undefined : usualWaitMs;
}

function parseMessage(text: string): SuspensionMessage | undefined {
  const match = /^([a-z]+(?:-[a-z]+)*): (.+)$/s.exec(text);
  return match === null ? undefined : { guard: match[1] as string, text: match[2] as string };
}

/** `kubectl get -o` prints annotations as they are. */
export function formatMessage({ guard, text: message }: SuspensionMessage): string {
  return escapeControls(`${guard}: ${message}`);
}

const onStatefulSet = annotationOn("StatefulSet");
const onPvc = annotationOn("PersistentVolumeClaim");
/** Sluice alone writes these annotations. */
const onPvcByUs = annotationOn("PersistentVolumeClaim", { isWrittenByUs: true });
const labelOfPvcByUs = labelOn("PersistentVolumeClaim", { isWrittenByUs: true });

/** Time between two removals if an owner does not set one, in milliseconds. */
export const usualWaitMs = 60_000;

const time = "a time as in RFC 3339, such as 2026-01-31T12:00:00Z";

export const suspendDuration = onStatefulSet("sluice.dev/suspend-duration", parseDuration, {
  grammar: "a duration such as 2h, 7d or 1d12h, or a number of seconds; 0 removes without a wait",
  fallback: "absent or malformed: no volume is suspended, and none that is suspended is removed",
  meaning: "how long a volume is kept after its pod has gone; one on the volume claim itself counts where it is longer",
});

export const removalMode = onStatefulSet("sluice.dev/removal-mode", oneOf(modes), {
  grammar: "All, Zone, Group or None",
  fallback: "absent: Zone; malformed: None",
  meaning: "how many pods or volumes may go at one time: all that are due, those of one zone, one member, or none",
});

export const waitBetweenRemovals = onStatefulSet("sluice.dev/wait-between-removals", parseWait, {
  grammar: "a duration such as 90s, or a number of seconds; a negative one is 60s",
  fallback: "absent: 60s; malformed: nothing is removed",
  meaning: "how long after a pod or a volume has gone the next ones may go; not with the mode All",
});

export const hold = onStatefulSet("sluice.dev/hold", parseBoolean, {
  grammar: "true or false",
  fallback: "absent: false; malformed: true",
  meaning:
    "true: no volume is removed, though the time goes on; on a StatefulSet for all of its volumes, or on a volume claim",
});

export const retainVolume = onStatefulSet("sluice.dev/retain-pv", parseBoolean, {
  grammar: "true or false",
  fallback: "absent: false; malformed: true",
  meaning:
    "true: the PersistentVolume gets the reclaim policy Retain before its claim is removed, so that the data stays",
});

export const suspendRequest = onPvc("sluice.dev/suspend", parseBoolean, {
  grammar: "true or false",
  fallback: "absent: false; malformed: what was begun stays as it is",
  meaning: "true: the pod of the volume goes, and the volume after a while; taken away: the pod comes back",
});

export const drainedAt = onPvc("sluice.dev/drained-at", parseTime, {
  grammar: time,
  fallback: "absent or malformed: its data is taken to be needed, and nothing goes",
  meaning:
    "since when no pod needs the data of the volume: the user or tool that moved it says so, or another pod, asked at sluice.dev/drain-url",
});

export const recover = onPvc("sluice.dev/recover", onlyTrue, {
  grammar: "true",
  fallback: "absent: nothing; malformed: nothing is removed while it stands",
  meaning: "the pod comes back with the same volume; `kubectl sluice recover` writes it",
});

/** An object that creates pods in place of a StatefulSet. `apiGroup` is empty for kinds of the core API. */
export interface WorkloadOwner {
  readonly kind: string;
  readonly apiGroup: string;
  readonly name: string;
}

function parseOwner(text: string): WorkloadOwner | undefined {
  const [, kind, apiGroup = "", name] = /^([A-Z][A-Za-z0-9]{0,62})(?:\.([a-z0-9.-]{1,253}))?\/(.+)$/.exec(text) ?? [];
  return kind === undefined || name === undefined || !isObjectName(name) ? undefined : { kind, apiGroup, name };
}

export const volumeOwner = onPvc("sluice.dev/owner", parseOwner, {
  grammar: "KIND.GROUP/NAME, such as FoundationDBCluster.apps.foundationdb.org/orders, or KIND/NAME",
  fallback: "absent: it is of the StatefulSet that made it; malformed: nothing is begun, and nothing removed",
  meaning:
    "what makes the pods of the volume, where that is no StatefulSet: all that name the same owner are one group",
});

export const volumeZone = onPvc("sluice.dev/zone", (text) => (labelValue.test(text) ? text : undefined), {
  grammar: "a name, as label values are",
  fallback:
    "absent: what sluice.dev/zone-label says, else the zone is unknown, which is a zone, too; malformed: it stays",
  meaning: "with sluice.dev/owner: the zone of the volume; we write it where only a label says it",
});

export const zoneLabel = onPvc("sluice.dev/zone-label", (text) => (labelKey.test(text) ? text : undefined), {
  grammar: "the key of a label",
  fallback: "absent: no label says the zone; malformed: it stays",
  meaning: "with sluice.dev/owner: which label of the volume claim, or of its pod, says the zone",
});

export const podSelector = onPvc("sluice.dev/pod-selector", parseLabels, {
  grammar: "LABEL=VALUE,LABEL=VALUE, at most 100 of them",
  fallback: "absent: the pods that the owner controls, and those with its volume claims; malformed: nothing is begun",
  meaning:
    "with sluice.dev/owner: which other pods are of the group, so that they are well while one of another zone goes",
});

export const suspendState = onPvcByUs("sluice.dev/suspend-state", oneOf(states), {
  grammar: "Suspending, Suspended or Removing",
  fallback: "absent: not suspended; malformed: nothing is removed",
  meaning: "how far it is; written by us",
});

export const suspendOwnerUid = onPvcByUs("sluice.dev/suspend-owner-uid", nonEmptyText, {
  grammar: "the uid of a StatefulSet, or an owner and a zone",
  fallback: "absent or malformed: nothing is removed",
  meaning: "what it was suspended from; written by us",
});

export const suspendPodUid = onPvcByUs("sluice.dev/suspend-pod-uid", nonEmptyText, {
  grammar: "the uid of a pod",
  fallback: "absent: no pod was taken down for it",
  meaning: "the pod that was taken down; written by us",
});

/** A pod has no more volume claims, and each of them names all of them. */
const longestTogether = mostEntries * 254;

export const suspendTogether = onPvcByUs(
  "sluice.dev/suspend-together",
  (text) => (text.length > longestTogether ? undefined : nonEmptyText(text)),
  {
    grammar: "names of volume claims, with commas between them",
    fallback: "absent: its pod has no other volume claim, or a StatefulSet made it",
    meaning: "the volume claims of its pod, which go or stay together when that is gone; written by us",
    isLong: true,
  },
);

export const suspendPodCreated = onPvcByUs("sluice.dev/suspend-pod-created", parseTime, {
  grammar: time,
  fallback: "absent or malformed: no function has seen a pod with the volume since its suspension was asked for",
  meaning:
    "when the newest pod that was seen with the volume was made: an older word on the drain says nothing; written by us",
});

export const suspendedAt = onPvcByUs("sluice.dev/suspended-at", parseTime, {
  grammar: time,
  fallback: "absent, malformed or of the future: the time begins anew",
  meaning: "when its pod was seen to be gone: the time runs from then; written by us",
});

export const suspendKeptFor = onPvcByUs("sluice.dev/suspend-kept-for", parseDuration, {
  grammar: "a number of seconds",
  fallback: "absent or malformed: once its StatefulSet is gone, only a duration of its own says how long it is kept",
  meaning: "how long it is kept, as its StatefulSet said last: that counts when the StatefulSet is gone; written by us",
});

export const suspendMessage = onPvcByUs("sluice.dev/suspend-message", parseMessage, {
  grammar: "GUARD: MESSAGE",
  fallback: "it is written anew",
  meaning: "what is waited for; written by us",
  isLong: true,
});

export const removalClaim = onPvcByUs("sluice.dev/removal-claim", nonEmptyText, {
  grammar: "the id of a claim",
  fallback: "absent: no claim of the ledger rests on it",
  meaning: "the claim of the ledger under which it is removed (rule R10a); written by us",
});

export const removalHeld = onPvcByUs("sluice.dev/removal-held", onlyTrue, {
  grammar: "true",
  fallback: "absent or malformed: a wish is fulfilled without a wait for the owner",
  meaning:
    "the owner wants it removed, and that is held back: a wish waits until the owner gives that up; written by us",
});

/** Our finalizer on a volume claim that is suspended, or about to be: it keeps its volume, whichever account deletes it. */
export const volumeHold = "sluice.dev/volume-hold";

/**
 * Our finalizer on any volume claim that is protected, whether or not it is suspended. A function that ends a suspension removes
 * the other finalizer, and never this one, unless the volume claim is being deleted.
 */
export const volumeProtection = "sluice.dev/volume-protection";

/** For `kubectl get pvc -l sluice.dev/suspended`: all that have our finalizer have it. */
export const suspended = labelOfPvcByUs("sluice.dev/suspended", onlyTrue, {
  grammar: "true",
  fallback: "absent: it is not suspended",
  meaning: "the volume claim is suspended, or about to be; written by us",
});

/** For `kubectl get pvc -l sluice.dev/protected`: all that have that finalizer have it. */
export const protectedVolume = labelOfPvcByUs("sluice.dev/protected", onlyTrue, {
  grammar: "true",
  fallback: "absent: it is not protected",
  meaning: "the volume claim keeps its volume, whichever account deletes it; written by us",
});

/** On a pod itself: with the right to write pods a user may also have one deleted. */
export const suspendable = labelOn("Pod")("sluice.dev/suspendable", onlyTrue, {
  grammar: "true",
  fallback: "absent or malformed: a pod of another owner goes only if that owner controls it",
  meaning: "the pod goes by the annotations of its volume claims, though the owner that they name does not control it",
});

/** The annotations on a volume claim, by users and by Sluice. */
export const pvcEntries = [suspendRequest, drainedAt, recover] as const;
export const stateEntries = [
  suspendState,
  suspendOwnerUid,
  suspendPodUid,
  suspendTogether,
  suspendPodCreated,
  suspendedAt,
  suspendKeptFor,
  suspendMessage,
  removalClaim,
] as const;
export const ownerEntries = [volumeOwner, volumeZone, zoneLabel, podSelector] as const;
export const policyEntries = [suspendDuration, removalMode, waitBetweenRemovals, hold, retainVolume] as const;
/** The annotations that decide whether a pod goes. */
export const leavingEntries = [...drainEntries, ...pvcEntries, ...ownerEntries, removalHeld, suspendable] as const;
export const suspensionEntries = [
  ...policyEntries,
  ...leavingEntries,
  ...stateEntries,
  suspended,
  protectedVolume,
] as const;
