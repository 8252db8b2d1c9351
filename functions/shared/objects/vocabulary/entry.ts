/** What a label or an annotation is to Sluice, and how one is read of an object. */
import type { Metadata } from "../../kubernetes/cluster.ts";

export interface Entry<T> {
  readonly key: string;
  readonly kind: "label" | "annotation";
  /** An owner is a custom resource, or a StatefulSet, whose pods a function acts on. */
  readonly on: "StatefulSet" | "Pod" | "Lease" | "WebhookConfiguration" | "Owner" | "PersistentVolumeClaim";
  readonly grammar: string;
  /** What an absent or malformed value means, in words. */
  readonly fallback: string;
  readonly says: string;
  /** The operator that alone writes it, as of types of objects; absent: anybody may. */
  readonly broughtBy?: string;
  /** The value, or undefined where the text is malformed. */
  parse(text: string): T | undefined;
}

/** A value on an object that does not parse: its object keeps working with the fallback, and its owner is told. */
export interface Malformed {
  readonly key: string;
  readonly sentence: string;
}

/**
 * The parsed value of an entry on an object, or undefined where it is absent or malformed; the latter is added to
 * `malformed` with a sentence that says what to write instead.
 */
export function read<T>(entry: Entry<T>, metadata: Metadata, malformed?: Malformed[]): T | undefined {
  const text = (entry.kind === "label" ? metadata.labels : metadata.annotations)?.[entry.key];
  if (text === undefined) return undefined;
  const value = entry.parse(text);
  if (value === undefined) {
    const shown = text.length > 60 ? `${text.slice(0, 60)}…` : text;
    malformed?.push({
      key: entry.key,
      sentence: `${entry.kind} ${entry.key} is ${JSON.stringify(shown)}; write ${entry.grammar}. Until then: ${entry.fallback}.`,
    });
  }
  return value;
}
