/** The command line of `npm run attack`. */
import { parseArgs } from "node:util";
import type { Attack, Size } from "./attack.ts";
import { attacks } from "./attacks.ts";
import { mebibyte } from "./limit.ts";

export interface AttackOptions {
  readonly size: Size;
  readonly attacks: readonly Attack[];
  readonly seed: number;
  /** Limit of the server's memory; undefined: none. */
  readonly limitBytes: number | undefined;
  /** A control group in which a new one may be made. */
  readonly cgroup: string | undefined;
  /** File for the table in Markdown. */
  readonly out: string | undefined;
}

export type Reading =
  | { readonly kind: "attack"; readonly options: AttackOptions }
  | { readonly kind: "help" }
  | { readonly kind: "wrong"; readonly mistakes: readonly string[] };

const usualLimit = "256";
const names = attacks.map(({ name }) => name);

export const help = `Attacks the shipped server, over loopback alone, and tells what it cost.

  npm run attack -- [--long] [--only LIST] [--seed S] [--limit MIB] [--cgroup DIR] [--out FILE]

  --long         as many requests and connections as it takes; without it about a minute
  --only LIST    of ${names.slice(0, 7).join(", ")},
                 ${names.slice(7).join(", ")}
  --seed S       which malformed requests are sent (default: 1)
  --limit MIB    how much memory the server may have (default: ${usualLimit}; 0: no limit, it is only measured)
  --cgroup DIR   a cgroup of your own, in which one is made that holds the limit; without it prlimit does
  --out FILE     writes the table there, in Markdown
  --help         this text

Each attack meets a server of its own. It fails when the server ends, goes beyond its limit, says a 5xx other than 503, or does
not answer honest reviews, events and probes beside it. Exit code 0: all of them held; 1: one did not; 2: wrong flags; 130: Ctrl-C.`;

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const flags = { only: text, seed: text, limit: text, cgroup: text, out: text, long: flag, help: flag } as const;

/** Reads the arguments after the script's name. Each mistake is a line. */
export function readOptions(argv: readonly string[]): Reading {
  let values: ReturnType<typeof parseArgs<{ options: typeof flags }>>["values"];
  try {
    ({ values } = parseArgs({ args: [...argv], options: flags }));
  } catch (error) {
    return { kind: "wrong", mistakes: [`${(error as Error).message.split("\n")[0]}; see --help`] };
  }
  if (values.help) return { kind: "help" };
  const mistakes: string[] = [];
  const whole = (name: "seed" | "limit", fallback: string, least: number, most: number): number => {
    const given = values[name] ?? fallback;
    const value = /^\d{1,10}$/.test(given) ? Number(given) : Number.NaN;
    if ((value === 0 && name === "limit") || (value >= least && value <= most)) return value;
    const orNone = name === "limit" ? ", or 0 for none" : "";
    mistakes.push(`--${name} is ${JSON.stringify(given)}; write an integer from ${least} to ${most}${orNone}`);
    return least;
  };
  const path = (name: "cgroup" | "out"): string | undefined => {
    if (values[name] === "") mistakes.push(`--${name} is empty; write a path`);
    return values[name];
  };
  const limit = whole("limit", usualLimit, 128, 65_536);
  const options: AttackOptions = {
    size: values.long ? "long" : "short",
    attacks: chosen(values.only, mistakes),
    seed: whole("seed", "1", 0, 4_294_967_295),
    limitBytes: limit === 0 ? undefined : limit * mebibyte,
    cgroup: path("cgroup"),
    out: path("out"),
  };
  if (limit === 0 && options.cgroup !== undefined)
    mistakes.push("--cgroup holds a limit, and --limit is 0; leave one out");
  return mistakes.length > 0 ? { kind: "wrong", mistakes } : { kind: "attack", options };
}

function chosen(list: string | undefined, mistakes: string[]): readonly Attack[] {
  if (list === undefined) return attacks;
  const wanted = list.split(",").map((name) => name.trim());
  for (const name of wanted) {
    if (!names.includes(name)) mistakes.push(`--only holds ${JSON.stringify(name)}; write some of ${names.join(", ")}`);
  }
  return attacks.filter(({ name }) => wanted.includes(name));
}
