/**
 * Claims: what is reserved besides a pod that goes, such as a scale-down or a volume. They are in the ledger beside its
 * reservations, one line of JSON each, and are written by the same conditional write (rule R18).
 *
 * A line that no function changes is written back as it was read, byte for byte, because a later version may have put more into
 * it.
 */

import { type Fields, fieldsOf, isTime, parseFields } from "../base/fields.ts";
import { isPath, isPort } from "../base/ports-and-paths.ts";
import { parseOrdinal } from "../workloads/pods.ts";
import { isNames, isNonEmptyName, only, parseTable } from "./claim-fields.ts";
import { type ProcessFields, readProcessFields } from "./process-claim.ts";

/** The kinds that this version knows; `claim-kinds.ts` has a row for each. */
export const claimKinds = ["scale-down", "volume", "process", "node"] as const;
export type KindName = (typeof claimKinds)[number];

/**
 * Rule R17: an `asked` claim is limited by the budget. An `announced` one reserves what no function can choose, such as a node
 * that failed: every function counts it, and no budget limits it.
 */
export type Terms = "asked" | "announced";

/** Ordinals from the first to the last, both included. However long, it counts once against the cap of a ledger. */
export interface OrdinalRange {
  readonly first: number;
  readonly last: number;
}

/**
 * Rule R10a: the object that says why a claim exists. While its annotation holds the claim's id, the claim is kept, however old
 * it is.
 */
export interface Anchor {
  readonly resource: string;
  /** Absent: the ledger's own. */
  readonly namespace?: string;
  readonly name: string;
  readonly annotation: string;
}

/**
 * Where the pods of a claim were told to leave, so that they can be told that it has ended, whatever their StatefulSet says by
 * then.
 */
export interface ToldAt {
  readonly scheme: "http" | "https";
  readonly port: number;
  readonly path: string;
  /** The Service by which pods have their names in DNS. */
  readonly service: string;
}

/** The content of a claim, as its own function writes it. */
export interface ClaimContent extends ProcessFields {
  /** Unique in its ledger. Several claims of one anchor begin with its text, and go on with a slash: {@link isNamedBy}. */
  readonly id: string;
  readonly kind: KindName;
  /** The name of a StatefulSet. */
  readonly zone: string;
  /** Ascending, none twice; at least one. */
  readonly members: readonly OrdinalRange[];
  /** The uids of what it is about, by object name: pods, volume claims, or the StatefulSet. */
  readonly uids?: Readonly<Record<string, string>>;
  /**
   * Since when its pods had been ready when it was made, by pod name, in milliseconds since the epoch and by a GET (rule R21):
   * one that is ready since another time was not so in between. No two clocks are compared.
   */
  readonly readyMs?: Readonly<Record<string, number>>;
  /** What identified the containers of its pods when it was made, by pod name, as `containerIdsOf` gives it. */
  readonly containers?: Readonly<Record<string, readonly string[]>>;
  /** The function that made it: the only one that changes or drops it. */
  readonly by: string;
  /** When it was made or renewed, by the API server's clock in milliseconds since the epoch. */
  readonly stampMs: number;
  /** Since when it has stood without a break, by the same clock, where it was renewed since; absent: since its stamp. */
  readonly sinceMs?: number;
  readonly phase: string;
  readonly terms: Terms;
  readonly anchor?: Anchor;
  readonly toldAt?: ToldAt;
  /** When its pods were first told that they stay, by the API server's clock in milliseconds since the epoch. */
  readonly undoneMs?: number;
}

export interface KnownClaim extends ClaimContent {
  readonly isKnown: true;
  /** The line as it stands in the ledger. */
  readonly line: string;
}

/** A claim of a kind that only a later version knows: its whole zone counts as down, and this version never ends it. */
export interface ForeignClaim extends Pick<KnownClaim, "id" | "zone" | "line"> {
  readonly isKnown: false;
  readonly kind: string;
  /** Empty where it does not say. */
  readonly by: string;
}

export type Claim = KnownClaim | ForeignClaim;

type Unreadable = (why: string) => Error;

/** The claims of an annotation, one a line; empty lines are none. Throws what `unreadable` makes of the first malformed one. */
export function parseClaims(text: string, unreadable: Unreadable): Claim[] {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const claims = lines.map((line) => parseClaim(line, unreadable));
  const ids = new Set(claims.map(({ id }) => id));
  if (ids.size < claims.length) throw unreadable("two of its claims have the same id");
  return claims;
}

/** The annotation that holds them. */
export function formatClaims(claims: readonly Claim[]): string {
  return claims.map(({ line }) => line).join("\n");
}

/** True for the claim that an anchor names by this text, and for each of several that share the anchor: `TEXT/ZONE`. */
export function isNamedBy({ id }: Pick<ClaimContent, "id">, text: string | undefined): boolean {
  return text !== undefined && text !== "" && (id === text || id.startsWith(`${text}/`));
}

/** Separates the claims of one function from all others. */
export function madeBy(name: string): (claim: Claim) => claim is KnownClaim {
  return (claim): claim is KnownClaim => claim.isKnown && claim.by === name;
}

/** The claims of one kind that a function has made. */
export function claimsBy(claims: readonly Claim[], kind: KindName, by: string): readonly KnownClaim[] {
  return claims.filter(madeBy(by)).filter((claim) => claim.kind === kind);
}

/** The number of a claim's entries for the limit of a ledger (rule R2): each range of ordinals counts once. */
export function countRanges(claims: readonly Claim[]): number {
  return claims.reduce((sum, claim) => sum + (claim.isKnown ? claim.members.length : 1), 0);
}

function parseClaim(line: string, unreadable: Unreadable): Claim {
  const fields = parseFields(line);
  const { id, kind, zone, by } = fields ?? {};
  if (fields === undefined || !isNonEmptyName(id) || !isNonEmptyName(kind) || !isNonEmptyName(zone)) {
    throw unreadable("a claim of it is no JSON object with an id, a kind and a zone");
  }
  const stated = { id, zone, line };
  if (!isKindName(kind)) return { ...stated, isKnown: false, kind, by: isNonEmptyName(by) ? by : "" };
  const content = parseContent({ id, kind, zone }, fields, (what) =>
    unreadable(`${what} of the claim ${id} (${kind}) is malformed`),
  );
  return { ...stated, isKnown: true, ...content };
}

function parseContent(
  stated: Pick<ClaimContent, "id" | "kind" | "zone">,
  fields: Fields,
  malformed: (what: string) => Error,
): ClaimContent {
  const needed = <T>(name: string, parse: (value: unknown) => T | undefined): T => {
    const value = parse(fields[name]);
    if (value === undefined) throw malformed(name);
    return value;
  };
  const optional = <Name extends string, T>(
    name: Name,
    parse: (value: unknown) => T | undefined,
  ): { readonly [name in Name]?: T } =>
    fields[name] === undefined ? {} : ({ [name]: needed(name, parse) } as { readonly [name in Name]: T });
  const time = only(isTime);
  return {
    ...stated,
    members: needed("members", parseMembers),
    by: needed("by", only(isNonEmptyName)),
    stampMs: needed("stampMs", time),
    ...optional("sinceMs", time),
    phase: needed("phase", only(isNonEmptyName)),
    terms: needed("terms", only(isTerms)),
    ...optional("uids", (value) => parseTable(value, isNonEmptyName)),
    ...optional("readyMs", (value) => parseTable(value, isTime)),
    ...optional("containers", (value) => parseTable(value, isNames)),
    // Rule R10a: an undone scale-down is found by its age; the ends of all other kinds are shown only by their anchors.
    ...(stated.kind === "scale-down" ? optional("anchor", parseAnchor) : { anchor: needed("anchor", parseAnchor) }),
    ...optional("toldAt", parseToldAt),
    ...optional("undoneMs", time),
    // Another kind may get fields of these names in a later version.
    ...(stated.kind === "process" ? readProcessFields(optional) : {}),
  };
}

function isTerms(value: unknown): value is ClaimContent["terms"] {
  return value === "asked" || value === "announced";
}

/** Such as `0-4,7`: ascending, and none twice. */
function parseMembers(value: unknown): readonly OrdinalRange[] | undefined {
  if (typeof value !== "string") return undefined;
  let before = -1;
  const ranges: OrdinalRange[] = [];
  for (const part of value.split(",")) {
    const [from = "", to = from, ...more] = part.split("-");
    const [first, last] = [parseOrdinal(from), parseOrdinal(to)];
    if (more.length > 0 || first <= before || last < first) return undefined;
    ranges.push({ first, last });
    before = last;
  }
  return ranges;
}

/** Such as `0-4,7`. */
export function formatMembers(members: readonly OrdinalRange[]): string {
  return members.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

/** From here on members are numbers that stand for names, which `uids` has: their owner is no StatefulSet. */
export const leastNumber = 2 ** 30;

/** The members in messages: ordinals, or the names of pods and volume claims without one. */
export function describeMembers({ members, uids = {} }: Pick<ClaimContent, "members" | "uids">): string {
  const isNamed = Object.keys(uids).length > 0 && members.every(({ first }) => first >= leastNumber);
  return isNamed ? Object.keys(uids).join(",") : formatMembers(members);
}

function parseAnchor(value: unknown): Anchor | undefined {
  const { resource, namespace, name, annotation } = fieldsOf(value) ?? {};
  if (!isNonEmptyName(resource) || !isNonEmptyName(name) || !isNonEmptyName(annotation)) return undefined;
  if (namespace === undefined) return { resource, name, annotation };
  return isNonEmptyName(namespace) ? { resource, namespace, name, annotation } : undefined;
}

function parseToldAt(value: unknown): ToldAt | undefined {
  const { scheme, port, path, service } = fieldsOf(value) ?? {};
  if (scheme !== "http" && scheme !== "https") return undefined;
  if (typeof port !== "number" || !isPort(port) || typeof path !== "string" || !isPath(path)) return undefined;
  return isNonEmptyName(service) ? { scheme, port, path, service } : undefined;
}

function isKindName(kind: string): kind is KindName {
  return (claimKinds as readonly string[]).includes(kind);
}

/** A new claim. */
export function makeClaim(content: ClaimContent): KnownClaim {
  return { isKnown: true, ...content, line: JSON.stringify(fieldsToWrite(content)) };
}

/** The claim with other values, by its own function alone. What a later version has put into it besides stays there. */
export function changeClaim(
  claim: KnownClaim,
  changes: Partial<Omit<ClaimContent, "id" | "kind" | "zone">>,
): KnownClaim {
  const { line, isKnown: _, ...content } = claim;
  const changed = { ...content, ...changes };
  return { isKnown: true, ...changed, line: JSON.stringify({ ...asSpelled(line), ...fieldsToWrite(changed) }) };
}

function fieldsToWrite({ id, kind, zone, members, ...rest }: ClaimContent): Fields {
  return { id, kind, zone, members: formatMembers(members), ...rest };
}

/** Its fields, each value as it was written, because a later version may write a number that is larger than this one can hold. */
function asSpelled(line: string): Fields {
  const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };
  // Objects and lists have no source of their own, but their contents have already been kept.
  const keep = (_key: string, value: unknown, { source }: { readonly source?: string }) =>
    source === undefined ? value : rawJSON(source);
  return JSON.parse(line, keep as Parameters<typeof JSON.parse>[1]) as Fields;
}

/** True where the claim names the ordinal; a claim of an unknown kind names all of its zone. */
export function namesOrdinal(claim: Claim, ordinal: number): boolean {
  return !claim.isKnown || isWithin(claim.members, ordinal);
}

/** True if one of the ranges contains the ordinal. */
export function isWithin(ranges: readonly OrdinalRange[], ordinal: number): boolean {
  return ranges.some(({ first, last }) => ordinal >= first && ordinal <= last);
}
