/**
 * The words that the Tab key offers after `kubectl sluice`: a program beside the plugin requests them,
 * `kubectl_complete-sluice`.
 */
import { parseArgs } from "node:util";
import { type ApiServerOptions, commands, options, outputs, owners, processGroups } from "./commands.ts";
import { goals } from "./decide-wait.ts";

/** The names that a cluster has; each is looked up only where it can come next. */
export interface Names {
  groups(): Promise<readonly string[]>;
  /** The pods of a group. */
  pods(group: string): Promise<readonly string[]>;
  /** The StatefulSets of a group. */
  zones(group: string): Promise<readonly string[]>;
  /** The reserved pods of a group. */
  reserved(group: string): Promise<readonly string[]>;
  /** Suspended volume claims, with the groups of these. */
  suspended(): Promise<{ readonly claims: readonly string[]; readonly groups: readonly string[] }>;
  nodes(): Promise<readonly string[]>;
}

/** `ShellCompDirectiveNoFileComp` of spf13/cobra, whose words kubectl reads: nothing of this is a file's name. */
export const noFiles = ":4";

/**
 * The completion script of kubectl up to 1.33 (spf13/cobra 1.8.1) has bash expand the offered words: `$(...)` in a name would
 * run. A name with any other character is left out.
 */
const plainName = /^[A-Za-z0-9._:/-]+$/;

/** The words before the last one, with their options about the cluster. Mistakes in them are not reported here. */
export function readWritten(typed: readonly string[]): ApiServerOptions & { readonly names: readonly string[] } {
  const args = typed.slice(0, -1);
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true, strict: false });
  const text = (value: unknown) => (typeof value === "string" ? value : undefined);
  const { namespace, kubeconfig, context } = values;
  const place = { namespace: text(namespace), kubeconfig: text(kubeconfig), context: text(context) };
  return { names: positionals, ...place };
}

/** The words that may replace the last one, whose beginning it is. Throws what `names` throw. */
export async function complete(typed: readonly string[], names: Names): Promise<readonly string[]> {
  const begun = typed.at(-1) ?? "";
  const [command, ...given] = readWritten(typed).names;
  const before = typed.at(-2);
  const offered = async (): Promise<readonly string[]> => {
    if (before === "-o" || before === "--output") return outputs[command ?? ""] ?? [];
    if (before === "--for") return goals;
    if (isValueOf(before)) return [];
    if (begun.startsWith("-")) return flagsOf(command);
    if (command === undefined) return commands;
    // The plugin would take such a name for an option.
    return (await namesFor(command, given, names)).filter((name) => !name.startsWith("-"));
  };
  return (await offered()).filter((one) => plainName.test(one) && one.startsWith(begun)).sort();
}

/** The word after one of these options is no name of a group. */
function isValueOf(word: string | undefined): boolean {
  if (word === undefined || !word.startsWith("-")) return false;
  return Object.entries(options).some(([name, option]) => {
    const short = "short" in option ? `-${option.short}` : undefined;
    return option.type === "string" && (word === `--${name}` || word === short);
  });
}

function flagsOf(command: string | undefined): readonly string[] {
  return Object.keys(options)
    .filter((name) => owners[name]?.includes(command ?? "") !== false)
    .map((name) => `--${name}`);
}

async function namesFor(command: string, given: readonly string[], names: Names): Promise<readonly string[]> {
  const [group] = given;
  switch (command) {
    case "status":
    case "why":
    case "wait":
      return group === undefined ? names.groups() : [];
    case "pause":
    case "resume":
      return partsAfterGroup(given, names, names.zones);
    case "release":
      return partsAfterGroup(given, names, names.reserved);
    case "restart":
      return partsAfterGroup(given, names, names.pods);
    case "suspended":
      return group === undefined ? (await names.suspended()).groups : [];
    case "recover": {
      // A list of a cluster's ids is not worth a read of all of it.
      if (group === processGroups) return [];
      const { claims, groups } = await names.suspended();
      const keywords = given.length === 0 ? [processGroups] : [];
      return [...keywords, ...claims, ...groups].filter((name) => !given.includes(name));
    }
    case "drain":
    case "fence":
    case "fenced":
    case "confirm":
      return group === undefined ? names.nodes() : [];
    default:
      return [];
  }
}

/** For a command with a group, and a pod or a zone of it. */
async function partsAfterGroup(
  [group, part]: readonly string[],
  { groups }: Pick<Names, "groups">,
  partsOf: (group: string) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  if (group === undefined) return groups();
  return part === undefined ? partsOf(group) : [];
}
