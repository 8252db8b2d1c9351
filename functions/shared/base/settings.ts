/** What a setting is, and grammars that several settings share. */
import { parseGoDuration } from "../clock/durations.ts";

/** An environment variable that changes what a process does. */
export interface Setting<T> {
  readonly name: string;
  /** Value if the variable is not set, or empty; written as a user would write it. */
  readonly fallback: string;
  readonly meaning: string;
  /** What to write instead of a value that does not parse. */
  readonly grammar: string;
  /** Undefined for a value that does not parse. */
  parse(text: string): T | undefined;
}

/** The environment of a process, as it was started with. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Keeps the type of what is parsed: `as const` of a table would not. */
export function setting<T>(description: Setting<T>): Setting<T> {
  return description;
}

/** The values of some settings, by field. */
export type ValuesOf<S> = { readonly [Field in keyof S]: S[Field] extends Setting<infer T> ? T : never };

/** The values of a function's own settings, by field: what the process was given, or else the fallback. */
export function valuesOf<S extends Readonly<Record<string, Setting<unknown>>>>(
  own: S,
  given: Readonly<Record<string, unknown>> = {},
): ValuesOf<S> {
  const values = Object.entries(own).map(([field, one]) => [field, given[field] ?? one.parse(one.fallback)]);
  return Object.fromEntries(values) as ValuesOf<S>;
}

/** `true` or `false`. */
export function parseBoolean(text: string): boolean | undefined {
  return text === "true" ? true : text === "false" ? false : undefined;
}

/** A Go duration in milliseconds; undefined if it does not parse or is out of bounds. */
export function parseDuration(text: string, leastMs: number, mostMs: number): number | undefined {
  const ms = parseGoDuration(text);
  return ms !== undefined && ms >= leastMs && ms <= mostMs ? ms : undefined;
}
