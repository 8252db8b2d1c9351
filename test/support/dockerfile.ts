/** Reads a Dockerfile as far as ours needs it. Anything unknown is an error, so that no step is silently left out. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

export type Step =
  | { readonly kind: "workdir"; readonly path: string }
  | {
      readonly kind: "copy";
      readonly from: string | undefined;
      readonly owner: string;
      readonly paths: readonly string[];
    }
  | { readonly kind: "user"; readonly user: string }
  | { readonly kind: "environment"; readonly variables: Readonly<Record<string, string>> }
  | { readonly kind: "run"; readonly command: readonly string[] }
  | { readonly kind: "entrypoint"; readonly command: readonly string[] };

export interface Stage {
  readonly base: string;
  /** Name of the stage; empty for the last one, which is the image. */
  readonly name: string;
  readonly steps: readonly Step[];
}

/**
 * The stages in order, with the build arguments filled in. A missing argument has its default. Throws for an unknown
 * instruction, flag or argument.
 */
export function readDockerfile(text: string, args: Readonly<Record<string, string>> = {}): Stage[] {
  const values = new Map<string, string>();
  const stages: { base: string; name: string; steps: Step[] }[] = [];
  const lines = text.replaceAll("\\\n", " ").split("\n");
  for (const line of lines.map((one) => one.trim()).filter((one) => one !== "" && !one.startsWith("#"))) {
    const [, instruction = "", rest = ""] = /^(\S+)\s+(.*)$/.exec(line) ?? [];
    if (instruction === "ARG" && stages.length === 0) {
      const [name = "", fallback = ""] = rest.split("=", 2);
      values.set(name, args[name] ?? fallback);
      continue;
    }
    if (instruction === "FROM") {
      const [, base = "", name = ""] = /^(\S+)(?: AS (\S+))?$/.exec(rest) ?? [];
      stages.push({
        base: base.replaceAll(/\$\{(\w+)\}/g, (_, argument) => baseOf(values, argument)),
        name,
        steps: [],
      });
      continue;
    }
    const step = readStep(instruction, rest);
    if (step === undefined) continue;
    const stage = stages.at(-1);
    if (stage === undefined) throw new Error(`a step before any FROM: ${line}`);
    stage.steps.push(step);
  }
  return stages;
}

/** The last stage of our own Dockerfile, which is the image: what it gives its server besides the program. */
export async function readImage(): Promise<{
  readonly environment: Readonly<Record<string, string>>;
  /** For Node. */
  readonly flags: readonly string[];
  /** Node, and what it runs. */
  readonly command: readonly string[];
}> {
  const text = await readFile(join(import.meta.dirname, "../../Dockerfile"), "utf8");
  const { steps = [] } = readDockerfile(text).at(-1) ?? {};
  const environment = Object.assign({}, ...steps.map((step) => (step.kind === "environment" ? step.variables : {})));
  const words = steps.flatMap((step) => (step.kind === "entrypoint" ? step.command : []));
  const flags = words.filter((word) => word.startsWith("--"));
  const command = words.filter((word) => !word.startsWith("--"));
  if (Object.keys(environment).length === 0 || flags.length === 0)
    throw new Error("the image gives its server nothing");
  return { environment, flags, command };
}

function baseOf(values: ReadonlyMap<string, string>, argument: string): string {
  const value = values.get(argument);
  if (value === undefined) throw new Error(`the argument ${argument} has no ARG before the first FROM`);
  return value;
}

function readStep(instruction: string, rest: string): Step | undefined {
  switch (instruction) {
    case "WORKDIR":
      return { kind: "workdir", path: rest };
    case "USER":
      return { kind: "user", user: rest };
    case "ENV":
      // NAME=VALUE without quotes.
      return {
        kind: "environment",
        variables: Object.fromEntries(rest.split(/\s+/).map((word) => word.split("=", 2))),
      };
    case "COPY":
      return readCopy(rest.split(/\s+/));
    case "RUN":
      return { kind: "run", command: rest.startsWith("[") ? JSON.parse(rest) : ["/bin/sh", "-c", rest] };
    case "ENTRYPOINT":
      return { kind: "entrypoint", command: JSON.parse(rest) };
    case "EXPOSE":
      // An instruction that only informs people.
      return undefined;
    default:
      throw new Error(`the instruction ${instruction} is not known here`);
  }
}

function readCopy(words: readonly string[]): Step {
  const flags = words.filter((word) => word.startsWith("--"));
  const known = new Map(flags.map((flag) => flag.split("=", 2) as [string, string]));
  const from = known.get("--from");
  const owner = known.get("--chown") ?? "0:0";
  for (const flag of known.keys()) if (!["--from", "--chown"].includes(flag)) throw new Error(`COPY has ${flag}`);
  return { kind: "copy", from, owner, paths: words.filter((word) => !word.startsWith("--")) };
}
