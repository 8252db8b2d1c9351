/** The command line of `npm run bench`. */
import { parseArgs } from "node:util";
import { type ContenderName, contenderNames } from "./contenders.ts";
import { parseSize, type Size } from "./sizes.ts";

export interface BenchOptions {
  readonly sizes: readonly Size[];
  readonly repeat: number;
  /** Undefined: those that a size has by default, see {@link contendersOf}. */
  readonly contenders: readonly ContenderName[] | undefined;
  readonly seed: number;
  /** Undefined: a new file under `bench-results/`. */
  readonly json: string | undefined;
  /** GOGC of the control plane's processes. */
  readonly gogc: number;
  /** A folder that takes Sluice's CPU profiles. */
  readonly profiles: string | undefined;
  /** More flags for the node that runs Sluice. */
  readonly nodeFlags: readonly string[];
}

export type Reading =
  | { readonly kind: "run"; readonly options: BenchOptions }
  | { readonly kind: "help" }
  | { readonly kind: "wrong"; readonly mistakes: readonly string[] };

/** As shipped, the peer takes five times the limit: where a rollout is long, it runs only when it is asked for. */
const shippedUpToPods = 100;

export const help = `Rolls one group of StatefulSets after the other with Sluice and with its peer, on the same control plane, and compares.

  npm run bench -- rollout [FLAGS]

  --sizes LIST        ZONESxPODS, or ZONESxPODS/BUDGET (default: 3x20,3x1000, with budgets of 5 and 100)
  --repeat N          trials of each contender at each size (default: 3)
  --contenders LIST   of ${contenderNames.join(", ")}
                      (default: all, but peer-shipped not beyond ${shippedUpToPods} pods in a zone)
  --seed S            of the order of the trials (default: 1)
  --json FILE         where the figures go (default: bench-results/rollout-TIME.json)
  --control-plane-gogc N
                      GOGC of etcd, kube-apiserver and kube-controller-manager, for all contenders alike (default: 300)
  --profile DIR       writes a CPU profile of each of Sluice's trials to DIR; its figures are then no measure
  --node-flags=FLAGS  more flags for the node that runs Sluice, with spaces between them
  --help              this text

The control plane is started for this run and ended with it. Exit code 0: every trial ended; 1: one did not; 2: wrong flags.`;

const flags = {
  sizes: { type: "string", default: "3x20,3x1000" },
  repeat: { type: "string", default: "3" },
  contenders: { type: "string" },
  seed: { type: "string", default: "1" },
  json: { type: "string" },
  "control-plane-gogc": { type: "string", default: "300" },
  profile: { type: "string" },
  "node-flags": { type: "string", default: "" },
  help: { type: "boolean" },
} as const;

/** Reads the command line. Each mistake is a line. */
export function readOptions(argv: readonly string[]): Reading {
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(argv);
  } catch (error) {
    return { kind: "wrong", mistakes: [`${(error as Error).message}; see --help`] };
  }
  const { values, positionals } = parsed;
  if (values.help) return { kind: "help" };
  const mistakes: string[] = [];
  const whole = (name: "repeat" | "seed" | "control-plane-gogc", least: number, most: number): number => {
    const text = values[name];
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= least && value <= most)) {
      mistakes.push(`--${name} is ${JSON.stringify(text)}; write an integer from ${least} to ${most}`);
    }
    return value;
  };
  if (positionals.length !== 1 || positionals[0] !== "rollout") {
    mistakes.push(`${JSON.stringify(positionals.join(" "))} is no benchmark; write rollout`);
  }
  const options: BenchOptions = {
    sizes: readSizes(values.sizes, mistakes),
    repeat: whole("repeat", 1, 1_000),
    contenders: readContenders(values.contenders, mistakes),
    seed: whole("seed", 0, 4_294_967_295),
    json: readPath("json", values.json, mistakes),
    gogc: whole("control-plane-gogc", 10, 10_000),
    profiles: readPath("profile", values.profile, mistakes),
    nodeFlags: values["node-flags"].split(/\s+/).filter(Boolean),
  };
  return mistakes.length > 0 ? { kind: "wrong", mistakes } : { kind: "run", options };
}

/** Who runs at a size. */
export function contendersOf({ contenders }: Pick<BenchOptions, "contenders">, size: Size): readonly ContenderName[] {
  if (contenders !== undefined) return contenders;
  return contenderNames.filter((name) => name !== "peer-shipped" || size.pods <= shippedUpToPods);
}

function parse(argv: readonly string[]) {
  return parseArgs({ args: [...argv], options: flags, allowPositionals: true });
}

function readSizes(list: string, mistakes: string[]): Size[] {
  return list.split(",").flatMap((text) => {
    const size = parseSize(text.trim());
    if (size === undefined) {
      mistakes.push(
        `--sizes holds ${JSON.stringify(text)}; write ZONESxPODS or ZONESxPODS/BUDGET, such as 3x20 or 3x20/5`,
      );
    }
    return size ?? [];
  });
}

function readContenders(list: string | undefined, mistakes: string[]): readonly ContenderName[] | undefined {
  if (list === undefined) return undefined;
  return list.split(",").flatMap((text) => {
    const name = contenderNames.find((known) => known === text.trim());
    if (name === undefined)
      mistakes.push(`--contenders holds ${JSON.stringify(text)}; write some of ${contenderNames.join(", ")}`);
    return name ?? [];
  });
}

function readPath(name: string, text: string | undefined, mistakes: string[]): string | undefined {
  if (text === "") mistakes.push(`--${name} is empty; write a path`);
  return text;
}
