/**
 * The review key is the first segment of the path under which an API server posts reviews. It shows that the client has read our
 * webhook configurations, or the Secret. Pure.
 */
import { randomBytes, timingSafeEqual } from "node:crypto";
import type { SecretObject } from "../kubernetes/cluster.ts";

/** How many random bytes a key has. */
export const reviewKeyBytes = 32;

/** Its data keys in the Secret of the certificate: each holds the bytes themselves. */
export const reviewKeyNames = {
  current: "review-key",
  next: "next-review-key",
  previous: "previous-review-key",
} as const;

/** What the Secret holds, each in hexadecimal; undefined where there is none, or one that has another length. */
export interface ReviewKeys {
  /** Webhook configurations are to have this one in their paths. */
  readonly current: string | undefined;
  /** It takes the place of `current` with the next certificate. */
  readonly next: string | undefined;
  /** It was `current` before: API servers may still use it. */
  readonly previous: string | undefined;
}

/** Reads the keys of the Secret. Never throws: a malformed key counts as none, and is generated again. */
export function parseReviewKeys({ data = {} }: Pick<SecretObject, "data">): ReviewKeys {
  const { current, next, previous } = reviewKeyNames;
  return { current: parse(data[current]), next: parse(data[next]), previous: parse(data[previous]) };
}

function parse(base64 = ""): string | undefined {
  // Base64 of 32 bytes has 44 characters: what is longer is not decoded.
  if (base64.length > 2 * reviewKeyBytes) return undefined;
  const bytes = Buffer.from(base64, "base64");
  return bytes.length === reviewKeyBytes ? bytes.toString("hex") : undefined;
}

/** Why `review-key` of the Secret cannot be used; undefined where it can. */
export function reviewKeyFault({ data = {} }: Pick<SecretObject, "data">): string | undefined {
  const name = reviewKeyNames.current;
  const base64 = data[name] ?? "";
  if (parse(base64) !== undefined) return undefined;
  if (base64 === "") return `there is no ${name}`;
  return `its ${name} has ${Buffer.byteLength(base64, "base64")} bytes, and not ${reviewKeyBytes}`;
}

/** A new key, in hexadecimal. */
export function generateReviewKey(): string {
  return randomBytes(reviewKeyBytes).toString("hex");
}

/** The bytes of a key, as the data of the Secret have them. */
export function encodeReviewKey(key: string): string {
  return Buffer.from(key, "hex").toString("base64");
}

/** A patch of the data: this key is `current` at once, and the previous current key stays valid as `previous`. */
export function dataOfFirstKey(key: string, { current }: ReviewKeys): object {
  const before = current === undefined ? {} : { [reviewKeyNames.previous]: encodeReviewKey(current) };
  return { [reviewKeyNames.current]: encodeReviewKey(key), ...before };
}

/** A patch of the data: this key becomes `current` by the next promotion. */
export function dataOfNextKey(key: string): object {
  return { [reviewKeyNames.next]: encodeReviewKey(key) };
}

/** A patch of the data: `next` takes the place of `current`. Without a valid `next` the others stay as they are. */
export function dataOfKeyPromotion(keys: ReviewKeys): object {
  const promoted = keys.next === undefined ? {} : dataOfFirstKey(keys.next, keys);
  return { ...promoted, [reviewKeyNames.next]: null };
}

/** API servers accept only paths of DNS names, which are lower case. */
const keyed = /^\/([0-9a-f]{64})(?=\/[^/])/;

/** The key that a path begins with, and the path without it; no key where the path begins with something else. */
export function splitPath(path: string): { readonly key: string | undefined; readonly path: string } {
  const key = keyed.exec(path)?.[1];
  return key === undefined ? { key, path } : { key, path: path.slice(1 + key.length) };
}

/** True for a path that a key can stand before: one with at least one segment. */
export function takesKey(path: string | undefined): path is string {
  return path !== undefined && /^\/[^/]/.test(path);
}

/** A path under a key, in the place of the key that it may begin with. */
export function withKey(path: string, key: string): string {
  return `/${key}${splitPath(path).path}`;
}

/** True for one of the keys. The time of the comparison reveals nothing about them. */
export function isReviewKey(key: string, keys: ReviewKeys): boolean {
  const shown = Buffer.from(key);
  const known = [keys.current, keys.next, keys.previous].filter((one) => one !== undefined);
  return known.map((one) => shown.length === one.length && timingSafeEqual(shown, Buffer.from(one))).includes(true);
}
