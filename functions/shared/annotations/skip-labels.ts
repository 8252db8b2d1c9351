/** The labels and annotations that make the stop hooks of an owner's pods let go, and those that record the progress. */

import { isObjectName } from "../base/dns-names.ts";
import { escapeControls } from "../base/escape-control.ts";
import { parseFields } from "../base/fields.ts";
import { parseBoolean } from "../base/settings.ts";
import { parseTime } from "../clock/durations.ts";
import { annotationOn, nonNegativeDuration } from "./entry.ts";
import { labelValue } from "./parse-labels.ts";

/** The label that pods get. */
export interface SkipLabel {
  readonly key: string;
  /** Undefined where any text will do: stop hooks then ask only whether there is some. */
  readonly value: string | undefined;
}

/** The last recorded status of an owner whose pods are let go. */
export interface SkipStatus {
  readonly guard: string;
  readonly message: string;
  /** The key of the label that pods of it got; undefined where neither the owner nor the status before names one. */
  readonly label: string | undefined;
  /** Since when the guard has held, in milliseconds since the epoch. */
  readonly sinceMs: number;
}

/** As for RabbitMQ's operator and its stop hook. */
export const skipPreStopChecks: SkipLabel = { key: "skipPreStopChecks", value: undefined };
/** The keys of labels that owners may ask for, unless the setting names others. */
export const usualSkipLabelKeys: readonly string[] = [skipPreStopChecks.key, "sluice.dev/*"];
/** The value of a label if any will do. */
export const anyValue = "true";

function isLabelKey(text: string): boolean {
  const parts = text.split("/");
  const [prefix, name] = parts.length === 2 ? parts : ["a", text];
  return parts.length <= 2 && labelValue.test(name ?? "") && isObjectName(prefix ?? "");
}

/** Prefixes of Kubernetes itself, whose labels mean something to its controllers; their subdomains are so as well. */
const reservedDomains = ["kubernetes.io", "k8s.io"];

function isReserved(key: string): boolean {
  const [prefix = "", name] = key.split("/");
  return name !== undefined && reservedDomains.some((domain) => prefix === domain || prefix.endsWith(`.${domain}`));
}

/** The keys that pods may get, each as a label key or as `PREFIX/*`; undefined where one of them is neither, or is reserved. */
export function parseLabelKeys(text: string): readonly string[] | undefined {
  const keys = text.split(",").map((key) => key.trim());
  const isKey = (key: string) => isLabelKey(key.replace(/\/\*$/, "/any")) && !isReserved(key);
  return keys.every(isKey) ? keys : undefined;
}

/** Whether pods may get a label of that key, by the keys that {@link parseLabelKeys} made. */
export function isKeyPermitted(key: string, permitted: readonly string[]): boolean {
  const isListed = permitted.some((one) => (one.endsWith("/*") ? key.startsWith(one.slice(0, -1)) : one === key));
  return isListed && !isReserved(key);
}

function parseSkipLabel(text: string): SkipLabel | "none" | undefined {
  if (text === "none") return "none";
  const end = text.indexOf("=");
  const [key, value] = end < 0 ? [text, undefined] : [text.slice(0, end), text.slice(end + 1)];
  if (!isLabelKey(key) || (value !== undefined && !labelValue.test(value))) return undefined;
  return { key, value };
}

/** A pod's record of the label that it got. */
export interface LabelStamp {
  /** In milliseconds since the epoch. */
  readonly atMs: number;
  /** The key of the label that we added; undefined where the pod had it already. */
  readonly key: string | undefined;
}

/** Stands in the place of a key where the pod had the label already. No label that an owner asks for has this name. */
const addedNone = "none";

/** A version before this one named no key, and added the label of RabbitMQ's operator in nearly all cases. */
function parseStamp(text: string): LabelStamp | undefined {
  const [time = "", key = skipPreStopChecks.key, ...rest] = text.split(" ");
  const atMs = parseTime(time);
  if (atMs === undefined || rest.length > 0 || !isLabelKey(key)) return undefined;
  return { atMs, key: key === addedNone ? undefined : key };
}

export function formatStamp({ atMs, key = addedNone }: LabelStamp): string {
  return `${new Date(atMs).toISOString()} ${key}`;
}

function parseStatus(text: string): SkipStatus | undefined {
  const { guard, sentence: message, label, since } = parseFields(text) ?? {};
  const sinceMs = typeof since === "string" ? parseTime(since) : undefined;
  if (typeof guard !== "string" || typeof message !== "string" || sinceMs === undefined) return undefined;
  return { guard, message, label: typeof label === "string" && isLabelKey(label) ? label : undefined, sinceMs };
}

/** The text of a status, as {@link skipStatus} reads it. */
export function formatStatus({ guard, message, label, sinceMs }: SkipStatus): string {
  return escapeControls(JSON.stringify({ guard, sentence: message, label, since: new Date(sinceMs).toISOString() }));
}

const onOwner = annotationOn("Owner");

export const skipLabel = onOwner("sluice.dev/skip-label", parseSkipLabel, {
  grammar: "KEY or KEY=VALUE of a label, or none",
  fallback: "absent: nothing is done; malformed: an Event, and of a RabbitmqCluster skipPreStopChecks",
  meaning: "once the object is being deleted, its pods get this label, so that their stop hooks let go",
});

export const skipDeadline = onOwner("sluice.dev/skip-deadline", nonNegativeDuration, {
  grammar: "a Go duration, such as 5m or 90s",
  fallback: "5m",
  meaning: "how long after its deletion the object is let go though not all of its pods have the label",
});

export const stopAll = onOwner("sluice.dev/stop-all", parseBoolean, {
  grammar: "true or false",
  fallback: "false",
  meaning: "its pods get the label though it is not being deleted: all of them are to stop, as for a scale to zero",
});

export const skipStatus = onOwner("sluice.dev/skip-status", parseStatus, {
  grammar: 'JSON: {"guard", "sentence", "label", "since"}',
  fallback: "absent: none of its pods was labelled; malformed: it is written anew",
  meaning: "how far its pods are, what is waited for, and since when; written by us",
  isWrittenByUs: true,
  isLong: true,
});

export const skipLabelledAt = annotationOn("Pod")("sluice.dev/skip-labelled-at", parseStamp, {
  grammar: "a time as in RFC 3339, a space and a label key or none, such as 2026-01-31T12:00:00Z skipPreStopChecks",
  fallback: "absent or malformed: the time is counted from now, and no label is taken away",
  meaning:
    "when the pod got its skip label, and the key of the label that we added: that alone is taken away again; written by us",
  isWrittenByUs: true,
});

/** Ours: an owner that has it stays until its pods are labelled. */
export const releaseFinalizer = "sluice.dev/release-prestop";

export const skipEntries = [skipLabel, skipDeadline, stopAll, skipStatus, skipLabelledAt] as const;
