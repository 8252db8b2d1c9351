/** The command line of `kubectl sluice`: what a user may write, and the answer to a mistake. */

import { parseArgs } from "node:util";
import { isNamespaceName, isObjectName } from "../../functions/shared/base/dns-names.ts";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { parseGoDuration } from "../../functions/shared/clock/durations.ts";
import { functionSettings } from "../table.ts";
import {
  type ApiServerOptions,
  type Command,
  commands,
  type FenceArguments,
  type FencedArguments,
  options,
  outputs,
  owners,
  type PauseArguments,
  processGroups,
  type ShowArguments,
  type StatusArguments,
  usualPort,
  usualReason,
  usualTimeout,
  type WriteOptions,
} from "./commands.ts";
import { goals } from "./decide-wait.ts";

/** A command, or a message about the mistake in its command line. */
type ReadCommand = Command | { readonly mistake: string };

const unconfirmed =
  "confirm ends what keeps the pods of the node from starting elsewhere: if the machine still runs, they run twice. Write --yes once you have seen that it is off";

export function readCommandLine(argv: readonly string[]): ReadCommand {
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(argv);
  } catch (error) {
    // The rest of Node's message advises on positional arguments that begin with a dash, which no name does.
    const [message = ""] = messageOf(error).split(/\. |\n/);
    return { mistake: message.replace(/\.$/, "") };
  }
  const { values, positionals, tokens } = parsed;
  const [word, ...names] = positionals;
  if (values.help || argv.length === 0) return { command: "help" };
  const given = tokens.flatMap((token) => (token.kind === "option" ? [token.name] : []));
  const repeated = given.find((name, index) => given.indexOf(name) !== index);
  if (repeated !== undefined) return { mistake: `--${repeated} is given several times` };
  const command = commands.find((one) => one === word);
  if (command === undefined) {
    const what = word === undefined ? "there is no command" : `there is no command ${JSON.stringify(word)}`;
    return { mistake: `${what}: write ${namesOf(commands, "or")}` };
  }
  const { namespace, mark = functionSettings.fenceMark.fallback } = values;
  const isEverywhere = values["all-namespaces"] ?? false;
  const mistake = foreignTo(command, given) ?? wrongValue(namespace, mark, isEverywhere);
  return mistake === undefined ? readCommand(command, names, { ...values, mark, isEverywhere }) : { mistake };
}

type OptionValues = ReturnType<typeof parse>["values"] & { readonly mark: string; readonly isEverywhere: boolean };

function readCommand(command: (typeof commands)[number], names: readonly string[], values: OptionValues): ReadCommand {
  const { namespace, kubeconfig, context, output = "text", wait = false, "dry-run": dryRun = false, mark } = values;
  const place = { namespace, kubeconfig, context };
  const { isEverywhere } = values;
  switch (command) {
    case "why":
    case "suspended":
    case "fenced": {
      const shown = readShow(command, names, output);
      if ("mistake" in shown) return shown;
      return command === "fenced"
        ? { command, ...place, ...shown, mark }
        : { command, ...place, ...shown, isEverywhere };
    }
    case "status": {
      const shown = readShow(command, names, output);
      if ("mistake" in shown) return shown;
      return { command, ...place, group: shown.name, output, isEverywhere, isWatching: values.watch ?? false };
    }
    case "page":
      return readPage(names, place, values);
    case "release":
      return readRelease(names, { ...place, wait, dryRun });
    case "recover":
      return readRecover(names, { ...place, wait, dryRun });
    case "fence":
    case "confirm":
      return readNode(command, names, { ...place, ...values, dryRun, mark });
    case "restart":
      return readRestart(names, { ...place, dryRun }, values);
    case "check":
    case "version":
      return readNameless(command, names, place);
    case "drain":
      return readDrain(names, place);
    case "wait":
      return readWait(names, place, values);
    case "pause":
    case "resume":
      return readPause(command, names, { ...place, dryRun });
  }
}

const namesOf = (names: readonly string[], last: "and" | "or" = "and"): string =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} ${last} ${names.at(-1)}`;

function foreignTo(command: string, given: readonly string[]): string | undefined {
  const foreign = given.find((name) => owners[name]?.includes(command) === false);
  return foreign && `--${foreign} belongs to ${namesOf(owners[foreign] ?? [])}, not to ${command}`;
}

function wrongValue(namespace: string | undefined, mark: string, isEverywhere: boolean): string | undefined {
  if (namespace !== undefined && isEverywhere)
    return "--namespace names one namespace, and --all-namespaces all of them: write one of the two";
  if (namespace !== undefined && !isNamespaceName(namespace))
    return `--namespace is ${JSON.stringify(namespace)}, which is no name of a namespace`;
  const { parse: parseMark, grammar } = functionSettings.fenceMark;
  return parseMark(mark) === undefined ? `--mark is ${JSON.stringify(mark)}; write ${grammar}` : undefined;
}

function parse(argv: readonly string[]) {
  return parseArgs({ args: [...argv], options, allowPositionals: true, tokens: true });
}

function readShow(
  command: (ShowArguments | FencedArguments | StatusArguments)["command"],
  names: readonly string[],
  output: string,
): Pick<ShowArguments, "name" | "output"> | { readonly mistake: string } {
  const [name, ...more] = names;
  if (more.length > 0)
    return {
      mistake: `${command} takes one ${command === "fenced" ? "NODE" : "GROUP"} or none; given: ${names.length}`,
    };
  const known = outputs[command] ?? [];
  if (output !== "text" && !known.includes(output)) {
    return { mistake: `--output is ${JSON.stringify(output)}; write ${known.join(" or ")}, or leave it out` };
  }
  return { name, output };
}

function readRelease(names: readonly string[], options: WriteOptions): ReadCommand {
  const [group, pod] = names;
  if (group === undefined || pod === undefined || names.length > 2) {
    return { mistake: `release takes two names, a GROUP and a POD; given: ${names.length}` };
  }
  if (!isObjectName(pod)) return { mistake: `${JSON.stringify(pod)} is no name of a pod` };
  return { command: "release", ...options, group, pod };
}

function readRecover(names: readonly string[], options: WriteOptions): ReadCommand {
  if (names.length === 0) return { mistake: "recover takes the names of volume claims, or a GROUP; given: 0" };
  const [word, cluster, ...ids] = names;
  if (word !== processGroups) return { command: "recover", ...options, names, cluster: undefined };
  if (cluster === undefined || ids.length === 0) {
    return { mistake: `recover ${processGroups} takes a FoundationDBCluster and the ids of its process groups` };
  }
  if (!isObjectName(cluster)) return { mistake: `${JSON.stringify(cluster)} is no name of a FoundationDBCluster` };
  return { command: "recover", ...options, names: ids, cluster };
}

function readNode(
  command: "fence" | "confirm",
  names: readonly string[],
  given: Omit<FenceArguments, "command" | "node" | "reason"> & { readonly reason?: string; readonly yes?: boolean },
): ReadCommand {
  const [node] = names;
  if (node === undefined || names.length > 1) return { mistake: `${command} takes one NODE; given: ${names.length}` };
  if (!isObjectName(node)) return { mistake: `${JSON.stringify(node)} is no name of a Node` };
  const { namespace, kubeconfig, context, dryRun, mark, reason = usualReason, yes = false } = given;
  const options = { namespace, kubeconfig, context, node, dryRun };
  if (command === "confirm") return yes ? { command, ...options } : { mistake: unconfirmed };
  return reason.trim() === "" ? { mistake: "--reason is empty" } : { command, ...options, reason, mark };
}

function readRestart(
  names: readonly string[],
  options: Omit<WriteOptions, "wait">,
  { coordinated = false, cancel = false }: { readonly coordinated?: boolean; readonly cancel?: boolean },
): ReadCommand {
  const [group, pod] = names;
  if (group === undefined || names.length > 2)
    return { mistake: `restart takes a GROUP, and one POD or none; given: ${names.length}` };
  if (pod !== undefined && !isObjectName(pod)) return { mistake: `${JSON.stringify(pod)} is no name of a pod` };
  if (coordinated && cancel)
    return { mistake: "--coordinated begins a restart and --cancel ends one: write one of them" };
  if (coordinated && pod !== undefined)
    return { mistake: "--coordinated restarts all processes of a group at once: leave the POD out" };
  const how = coordinated ? "coordinated" : cancel ? "cancel" : "usual";
  return { command: "restart", ...options, group, pod, how };
}

function readPause(
  command: PauseArguments["command"],
  names: readonly string[],
  options: Omit<WriteOptions, "wait">,
): ReadCommand {
  const [group, zone] = names;
  if (group === undefined || names.length > 2)
    return { mistake: `${command} takes a GROUP, and one ZONE or none; given: ${names.length}` };
  if (zone !== undefined && !isObjectName(zone))
    return { mistake: `${JSON.stringify(zone)} is no name of a StatefulSet` };
  return { command, ...options, group, zone };
}

function readPage(
  names: readonly string[],
  place: ApiServerOptions,
  { port = usualPort }: { readonly port?: string },
): ReadCommand {
  if (names.length > 0) return { mistake: `page takes no name; given: ${names.length}` };
  const isPort = /^\d{1,5}$/.test(port) && Number(port) <= 65_535;
  return isPort
    ? { command: "page", ...place, port: Number(port) }
    : { mistake: `--port is ${JSON.stringify(port)}; write a number up to 65535` };
}

function readNameless(command: "check" | "version", names: readonly string[], place: ApiServerOptions): ReadCommand {
  return names.length > 0 ? { mistake: `${command} takes no name; given: ${names.length}` } : { command, ...place };
}

function readDrain(names: readonly string[], place: ApiServerOptions): ReadCommand {
  const [node] = names;
  if (node === undefined || names.length > 1) return { mistake: `drain takes one NODE; given: ${names.length}` };
  if (!isObjectName(node)) return { mistake: `${JSON.stringify(node)} is no name of a Node` };
  return { command: "drain", ...place, node };
}

function readWait(
  names: readonly string[],
  place: ApiServerOptions,
  { for: wanted = "done", timeout = usualTimeout }: { readonly for?: string; readonly timeout?: string },
): ReadCommand {
  const [group] = names;
  if (group === undefined || names.length > 1) return { mistake: `wait takes one GROUP; given: ${names.length}` };
  const goal = goals.find((one) => one === wanted);
  if (goal === undefined) return { mistake: `--for is ${JSON.stringify(wanted)}; write ${namesOf(goals, "or")}` };
  const timeoutMs = parseGoDuration(timeout);
  if (timeoutMs === undefined || timeoutMs < 0)
    return { mistake: `--timeout is ${JSON.stringify(timeout)}; write a duration such as 90s or 1h30m, or 0` };
  return { command: "wait", ...place, group, goal, timeoutMs };
}

/**
 * The namespace where none is given, in a pod of Sluice: one that its server serves.
 *
 * @param setting the value of NAMESPACE
 * @param own the pod's namespace
 */
export function namespaceInPod(setting: string | undefined, own: string): string {
  const served = (setting ?? "").split(",").map((name) => name.trim());
  return served.includes(own) ? own : (served.find(isNamespaceName) ?? own);
}
