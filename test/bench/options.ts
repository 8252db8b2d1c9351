/** The command line of `npm run bench`. */

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { startScriptOf } from "../support/start-script.ts";
import { against, type ContenderName, contenderNames } from "./contenders.ts";
import { type FenceCase, fenceCases } from "./fence/figures.ts";
import { parseSize, type Size } from "./sizes.ts";

/** The options of every benchmark. */
export interface SharedOptions {
  readonly sizes: readonly Size[];
  readonly repeat: number;
  /** Undefined: the benchmark's defaults. */
  readonly contenders: readonly ContenderName[] | undefined;
  readonly seed: number;
  /** Undefined: a new file under `bench-results/`. */
  readonly json: string | undefined;
  /** GOGC of the control plane's processes. */
  readonly gogc: number;
  /** True: the API server limits requests by priority and fairness, as clusters do. */
  readonly fairness: boolean;
  /** Folder for Sluice's CPU profiles. */
  readonly profiles: string | undefined;
  /** More flags for the Node that runs Sluice. */
  readonly nodeFlags: readonly string[];
  /** Another checkout of Sluice, which takes turns with this one. */
  readonly against: string | undefined;
}

export type RolloutOptions = SharedOptions;

export const evictionParts = ["reviews", "storm", "parked", "memory", "forged"] as const;
export type EvictionPart = (typeof evictionParts)[number];

export interface EvictionOptions extends SharedOptions {
  readonly parts: readonly EvictionPart[];
  /** Number of reviews in flight for each step of the part `reviews`. */
  readonly inFlight: readonly number[];
  /** Duration of each of these steps. */
  readonly seconds: number;
  /** Number of reviews that the part `memory` sends. */
  readonly reviews: number;
}

export const scalingParts = ["lower", "follow"] as const;
export type ScalingPart = (typeof scalingParts)[number];

export interface ScalingOptions extends SharedOptions {
  readonly parts: readonly ScalingPart[];
}

export const faults = ["none", "never-ready", "still-watch", "too-many-requests"] as const;
export type Fault = (typeof faults)[number];

export interface FaultOptions extends SharedOptions {
  readonly parts: readonly Fault[];
}

export interface FenceOptions extends SharedOptions {
  readonly parts: readonly FenceCase[];
}

/** Others have no status. */
export const statusContenders: readonly string[] = ["sluice", "sluice-refusing"] satisfies ContenderName[];
export const statusParts = ["viewers", "renders"] as const;
export type StatusPart = (typeof statusParts)[number];

export interface StatusOptions extends SharedOptions {
  readonly parts: readonly StatusPart[];
}

export type Reading =
  | { readonly kind: "rollout"; readonly options: RolloutOptions }
  | { readonly kind: "eviction"; readonly options: EvictionOptions }
  | { readonly kind: "scaling"; readonly options: ScalingOptions }
  | { readonly kind: "faults"; readonly options: FaultOptions }
  | { readonly kind: "drain"; readonly options: SharedOptions }
  | { readonly kind: "status"; readonly options: StatusOptions }
  | { readonly kind: "fence"; readonly options: FenceOptions }
  | { readonly kind: "cold-start"; readonly options: SharedOptions }
  | { readonly kind: "restart"; readonly options: SharedOptions }
  | { readonly kind: "help" }
  | { readonly kind: "wrong"; readonly mistakes: readonly string[] };

/** The peer as shipped takes five times the limit, so it takes part in long rollouts only by name. */
export const shippedUpToPods = 100;
const mostInFlight = 1_000;
const mostGroups = 1_000;

export const help = `Measures Sluice and its peer, one after the other, on the same control plane, and compares.

  npm run bench -- rollout [FLAGS]    rolls a group of StatefulSets
  npm run bench -- eviction [FLAGS]   has evictions reviewed, and evicts every pod of a group
  npm run bench -- drain [FLAGS]      has kubectl drain the node with all pods of one zone
  npm run bench -- faults [FLAGS]     rolls a group, and breaks something in the midst of it
  npm run bench -- scaling [FLAGS]    makes zones smaller with pods that are told, and larger with their leader
  npm run bench -- status [FLAGS]     evicts every pod of a group beside 64 viewers of the status and without them, and
                                      renders large pages
  npm run bench -- cold-start [FLAGS] starts each function for one event, against a Node that does nothing; it knows
                                      --repeat, --seed, --json and --node-flags
  npm run bench -- fence [FLAGS]      fences nodes of three, in real time and with all defaults: 5 minutes for each of
                                      --repeat; it needs root and namespaces, and knows the same flags and --only
  npm run bench -- restart [FLAGS]    restarts the processes of three OpenSearch nodes in place, and by deleting their
                                      pods; it needs a JDK and Maven, and knows the flags of cold-start

  --sizes LIST        ZONESxPODS, or ZONESxPODS/BUDGET
                      (default: rollout 3x20,3x1000, with budgets of 5 and 100; eviction, faults, scaling and
                      status 3x20; drain 3x20/5,3x20/1)
  --groups N          of rollout: so many groups of each size, in one namespace, rolled at once (default: 1)
  --repeat N          trials of each contender at each size (default: 3; status 5, cold-start 20)
  --contenders LIST   of ${contenderNames.join(", ")}
                      (default: rollout all but oracle, peer-shipped not beyond ${shippedUpToPods} pods in a zone;
                      drain sluice,sluice-refusing,peer-tuned;
                      status sluice, and it may have sluice-refusing;
                      eviction, faults and scaling sluice,peer-tuned; for storm oracle too, and sluice alone for
                      parked, memory and forged)
  --seed S            of the order of the trials (default: 1)
  --json FILE         where the figures go (default: bench-results/BENCHMARK-TIME.json)
  --control-plane-gogc N
                      GOGC of etcd, kube-apiserver and kube-controller-manager, for all contenders alike (default: 300)
  --fairness          the API server has priority and fairness, and the seats that it has by default; else it has no
                      limits; not in cold-start
  --profile DIR       writes a CPU profile of each of Sluice's trials to DIR; its figures are then no measure
  --node-flags=FLAGS  more flags for the node that runs Sluice, with spaces between them
  --against DIR       another checkout of Sluice, with its node_modules, takes part as ${against}; the tables say
                      what this Sluice's figures are of its figures, round by round; not in cold-start
  --help              this text

Of eviction, faults, scaling, status and fence:

  --only LIST         of ${evictionParts.join(", ")}; of scaling ${scalingParts.join(", ")};
                      of faults ${faults.join(", ")}; of status ${statusParts.join(", ")};
                      of fence ${fenceCases.join(", ")} (default: all of them)

Of eviction alone:

  --in-flight LIST    reviews in flight at once, for each step of reviews (default: 1,8,32,128)
  --seconds N         how long each of these steps is measured (default: 5)
  --reviews N         how many reviews memory sends (default: 100000)

The control plane is started for this run and ended with it. Exit code 0: every trial ended; 1: one did not, or a fence
or a restart took longer than it may, or status broke a bound; 2: wrong flags.`;

const flags = {
  sizes: { type: "string" },
  groups: { type: "string" },
  repeat: { type: "string" },
  contenders: { type: "string" },
  seed: { type: "string", default: "1" },
  json: { type: "string" },
  "control-plane-gogc": { type: "string", default: "300" },
  fairness: { type: "boolean", default: false },
  profile: { type: "string" },
  "node-flags": { type: "string", default: "" },
  against: { type: "string" },
  only: { type: "string" },
  "in-flight": { type: "string" },
  seconds: { type: "string" },
  reviews: { type: "string" },
  help: { type: "boolean" },
} as const;
const evictionFlags = ["in-flight", "seconds", "reviews"] as const;
/** Of benchmarks that start a control plane, and have groups and contenders on it. */
const contenderFlags = ["sizes", "contenders", "fairness", "profile"] as const;
const benchmarks = [
  ...(["rollout", "eviction", "drain", "faults", "scaling", "status", "cold-start", "fence", "restart"] as const),
];

const defaultSizes: Readonly<Record<string, string>> = {
  eviction: "3x20",
  faults: "3x20",
  scaling: "3x20",
  status: "3x20",
  drain: "3x20/5,3x20/1",
};

const defaultRepeats: Readonly<Record<string, string>> = { "cold-start": "20", status: "5" };

type Values = ReturnType<typeof parse>["values"];

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
  const name = positionals.join(" ");
  if (!benchmarks.some((known) => known === name)) {
    mistakes.push(`${JSON.stringify(name)} is no benchmark; write one of ${benchmarks.join(", ")}`);
  }
  mistakes.push(...foreignFlags(name, values));
  const repeat = values.repeat ?? defaultRepeats[name] ?? "3";
  if (name !== "eviction" && /\boracle\b/.test(values.contenders ?? "")) {
    mistakes.push("--contenders holds oracle, which is there for the part storm of eviction alone; leave it out");
  }
  const shared = readShared({ ...values, repeat }, defaultSizes[name] ?? "3x20,3x1000", mistakes);
  if (name === "scaling") {
    const parts = readNames("only", scalingParts, values.only, mistakes) ?? scalingParts;
    return mistakes.length > 0 ? { kind: "wrong", mistakes } : { kind: name, options: { ...shared, parts } };
  }
  if (name === "faults") {
    const parts = readNames("only", faults, values.only, mistakes) ?? faults;
    return mistakes.length > 0 ? { kind: "wrong", mistakes } : { kind: name, options: { ...shared, parts } };
  }
  if (name === "status") {
    const foreign = shared.contenders?.filter((contender) => !statusContenders.includes(contender)) ?? [];
    if (foreign.length > 0)
      mistakes.push(`--contenders holds ${foreign.join(", ")}; status has ${statusContenders.join(", ")} alone`);
    const parts = readNames("only", statusParts, values.only, mistakes) ?? statusParts;
    return mistakes.length > 0 ? { kind: "wrong", mistakes } : { kind: name, options: { ...shared, parts } };
  }
  if (name === "fence") {
    const parts = readNames("only", fenceCases, values.only, mistakes) ?? fenceCases;
    return mistakes.length > 0 ? { kind: "wrong", mistakes } : { kind: name, options: { ...shared, parts } };
  }
  const own = {
    parts: readNames("only", evictionParts, values.only, mistakes) ?? evictionParts,
    inFlight: readNumbers("in-flight", values["in-flight"] ?? "1,8,32,128", mostInFlight, mistakes),
    seconds: readWhole("seconds", values.seconds ?? "5", [1, 60], mistakes),
    reviews: readWhole("reviews", values.reviews ?? "100000", [1_000, 100_000_000], mistakes),
  };
  if (mistakes.length > 0) return { kind: "wrong", mistakes };
  if (name === "eviction") return { kind: name, options: { ...shared, ...own } };
  const isShared = name === "cold-start" || name === "drain" || name === "restart";
  return { kind: isShared ? name : "rollout", options: shared };
}

/** The flags that belong to another benchmark. */
function foreignFlags(name: string, values: Values): string[] {
  const mistakes: string[] = [];
  if (["rollout", "drain", "cold-start", "restart"].includes(name)) {
    if (values.only !== undefined)
      mistakes.push("--only is a flag of eviction, faults, scaling, status and fence; leave it out");
  }
  if (name !== "eviction" && benchmarks.some((known) => known === name)) {
    const foreign = evictionFlags.filter((flag) => values[flag] !== undefined);
    mistakes.push(...foreign.map((flag) => `--${flag} is a flag of eviction alone; leave it out`));
  }
  if (name !== "rollout" && values.groups !== undefined) {
    mistakes.push("--groups is a flag of rollout alone; leave it out");
  }
  if (name === "cold-start" && values.fairness) {
    mistakes.push("--fairness is no flag of cold-start, which has no API server; leave it out");
  }
  if (["cold-start", "fence", "restart", "status"].includes(name) && values.against !== undefined) {
    mistakes.push("--against is a flag of rollout, eviction and scaling; leave it out");
  }
  if (name === "fence" || name === "restart") {
    const foreign = contenderFlags.filter((flag) => values[flag] !== undefined && values[flag] !== false);
    mistakes.push(...foreign.map((flag) => `--${flag} is no flag of ${name}; leave it out`));
  }
  return mistakes;
}

function parse(argv: readonly string[]) {
  return parseArgs({ args: [...argv], options: flags, allowPositionals: true });
}

function readShared(values: Values & { readonly repeat: string }, sizes: string, mistakes: string[]): SharedOptions {
  const groups = readWhole("groups", values.groups ?? "1", [1, mostGroups], mistakes);
  return {
    sizes: readSizes(values.sizes ?? sizes, groups, mistakes),
    repeat: readWhole("repeat", values.repeat, [1, 1_000], mistakes),
    contenders: readNames("contenders", contenderNames, values.contenders, mistakes),
    seed: readWhole("seed", values.seed, [0, 4_294_967_295], mistakes),
    json: readPath("json", values.json, mistakes),
    gogc: readWhole("control-plane-gogc", values["control-plane-gogc"], [10, 10_000], mistakes),
    fairness: values.fairness,
    profiles: readPath("profile", values.profile, mistakes),
    nodeFlags: values["node-flags"].split(/\s+/).filter(Boolean),
    against: readCheckout(values.against, mistakes),
  };
}

function readWhole(flag: string, text: string, [least, most]: readonly [number, number], mistakes: string[]): number {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= least && value <= most)) {
    mistakes.push(`--${flag} is ${JSON.stringify(text)}; write an integer from ${least} to ${most}`);
  }
  return value;
}

function readNumbers(flag: string, list: string, most: number, mistakes: string[]): number[] {
  return list.split(",").map((text) => readWhole(flag, text.trim(), [1, most], mistakes));
}

function readSizes(list: string, groups: number, mistakes: string[]): Size[] {
  return list.split(",").flatMap((text) => {
    const size = parseSize(text.trim());
    if (size === undefined) {
      mistakes.push(
        `--sizes holds ${JSON.stringify(text)}; write ZONESxPODS or ZONESxPODS/BUDGET, such as 3x20 or 3x20/5`,
      );
    }
    if (size === undefined || groups === 1) return size ?? [];
    return { ...size, groups, label: `${groups} of ${size.label}` };
  });
}

function readNames<T extends string>(
  flag: string,
  known: readonly T[],
  list: string | undefined,
  mistakes: string[],
): readonly T[] | undefined {
  if (list === undefined) return undefined;
  const names = list.split(",").flatMap((text) => {
    const name = known.find((candidate) => candidate === text.trim());
    if (name === undefined) mistakes.push(`--${flag} holds ${JSON.stringify(text)}; write some of ${known.join(", ")}`);
    return name ?? [];
  });
  return [...new Set(names)];
}

function readPath(flag: string, text: string | undefined, mistakes: string[]): string | undefined {
  if (text === "") mistakes.push(`--${flag} is empty; write a path`);
  return text;
}

function readCheckout(text: string | undefined, mistakes: string[]): string | undefined {
  if (text === undefined) return undefined;
  const directory = resolve(text);
  try {
    startScriptOf(directory);
  } catch (error) {
    mistakes.push(`--against is ${JSON.stringify(text)}, which is no checkout of Sluice: ${(error as Error).message}`);
  }
  return directory;
}
