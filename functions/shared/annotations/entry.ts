/** What a label or an annotation is to Sluice, and how one is read of an object. */

import { isObjectName } from "../base/dns-names.ts";
import { showValue, unshown } from "../base/escape-control.ts";
import { parseDuration } from "../base/settings.ts";
import type { Metadata } from "../kubernetes/cluster.ts";
import { isTooLong, mostBytes } from "./bounds.ts";

export interface Annotation<T> {
  readonly key: string;
  readonly kind: "label" | "annotation";
  /** An owner is a custom resource, or a StatefulSet, whose pods a function acts on. */
  readonly on:
    | "StatefulSet"
    | "Pod"
    | "Lease"
    | "WebhookConfiguration"
    | "Owner"
    | "PersistentVolumeClaim"
    | "Node"
    | "Secret";
  readonly grammar: string;
  /** What an absent or malformed value means, in words. */
  readonly fallback: string;
  readonly meaning: string;
  /** The operator that alone writes it, as of types of objects; absent: any account may. */
  readonly broughtBy?: string;
  /** True for what Sluice or kubectl writes, which may be longer than what users write; a ledger also has its own limits. */
  readonly isLong?: true;
  /** True for what Sluice alone writes. By the guard policies any other account needs the verb `repair` to change it. */
  readonly isWrittenByUs?: true;
  /** True for a URL and the like: Events, logs and messages show no part of a value that does not parse. */
  readonly mayContainSecret?: true;
  /** The value, or undefined where the text is malformed. */
  parse(text: string): T | undefined;
}

type EntryMaker = <T>(
  key: string,
  parse: Annotation<T>["parse"],
  texts: Omit<Annotation<T>, "key" | "kind" | "on" | "parse">,
) => Annotation<T>;

/** The common fields of the entries of one maker. */
type Traits = Pick<Annotation<unknown>, "isWrittenByUs">;

/** Makes the entries of the annotations on one type of object. */
export function annotationOn(on: Annotation<unknown>["on"], traits: Traits = {}): EntryMaker {
  return (key, parse, texts) => ({ key, kind: "annotation", on, parse, ...traits, ...texts });
}

/** Makes the entries of the labels on one type of object. */
export function labelOn(on: Annotation<unknown>["on"], traits: Traits = {}): EntryMaker {
  return (key, parse, texts) => ({ key, kind: "label", on, parse, ...traits, ...texts });
}

/** For an entry that accepts every text, however long, because it is compared as a whole and costs nothing to read. */
export const anyText = (text: string): string => text;
export const nonEmptyText = (text: string): string | undefined => (text === "" ? undefined : text);
export const objectName = (text: string): string | undefined => (isObjectName(text) ? text : undefined);
/** For an entry that means yes with one word, and no without it. */
export const onlyTrue = (text: string): true | undefined => (text === "true" ? true : undefined);
/** For an entry whose value is one of these words. */
export const oneOf = <const Word extends string>(texts: readonly Word[]): Annotation<Word>["parse"] => {
  return (text) => texts.find((word) => word === text);
};
/** A Go duration of at least 0, in milliseconds. */
export const nonNegativeDuration = (text: string) => parseDuration(text, 0, Number.POSITIVE_INFINITY);

/** A value that Sluice does not accept: its object keeps working with the fallback, and an Event on it says so. */
export interface Malformed {
  readonly key: string;
  readonly message: string;
  /** The value of a label that stands as an annotation, or the reverse; absent: the value does not parse. */
  readonly misplaced?: string;
}

/**
 * The parsed value of an entry on an object, or undefined where it is absent or malformed; the latter is added to
 * `malformed` with a message that says what to write instead.
 */
export function read<T>(entry: Annotation<T>, metadata: Metadata, malformed?: Malformed[]): T | undefined {
  const text = (entry.kind === "label" ? metadata.labels : metadata.annotations)?.[entry.key];
  if (text === undefined) return undefined;
  const isBounded = entry.on !== "Lease" && entry.isLong !== true && (entry.parse as unknown) !== anyText;
  const isUnread = isBounded && isTooLong(text);
  const value = isUnread ? undefined : entry.parse(text);
  if (value === undefined) {
    const tooLong = isUnread ? `, which has more than ${mostBytes} bytes` : "";
    malformed?.push({ key: entry.key, message: describeMalformed(entry, text, tooLong) });
  }
  return value;
}

/** What is wrong with a value that does not parse, and what to write instead. `more` follows the value. */
export function describeMalformed(
  { kind, key, grammar, fallback, mayContainSecret }: Omit<Annotation<unknown>, "parse" | "on" | "meaning">,
  text: string,
  more = "",
): string {
  const shown = mayContainSecret ? unshown : showValue(text);
  return `${kind} ${key} is ${shown}${more}; write ${grammar}. Until then: ${fallback}.`;
}
