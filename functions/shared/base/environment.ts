/** Settings of a small process that reads them itself: each is right, or has a message of one line. Pure. */
import type { Environment, Setting, ValuesOf } from "./settings.ts";

/** The fallback of a setting without one. Only an unset variable has this value, because parsers refuse the empty text. */
export const unset = "";

/** An absolute path. */
export const absolutePath = {
  grammar: "an absolute path",
  parse: (text: string): string | undefined => (text.startsWith("/") ? text : undefined),
} as const;

/**
 * The values by field, or one message for each variable that is missing or malformed.
 *
 * @param optional names of the variables that may be missing; their value is undefined then
 */
export function readEnvironment<S extends Readonly<Record<string, Setting<unknown>>>>(
  own: S,
  environment: Environment,
  optional: ReadonlySet<string> = new Set(),
): ValuesOf<S> | readonly string[] {
  const wrong: string[] = [];
  const values = Object.entries(own).map(([field, { name, fallback, grammar, parse }]) => {
    const text = environment[name] || fallback;
    if (text === unset && optional.has(name)) return [field, undefined];
    const value = parse(text);
    if (value === undefined)
      wrong.push(`${name} is ${text === unset ? "not set" : JSON.stringify(text)}: write ${grammar}`);
    return [field, value];
  });
  return wrong.length > 0 ? wrong : (Object.fromEntries(values) as ValuesOf<S>);
}
