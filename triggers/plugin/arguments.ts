/** The command line of `kubectl sluice`: what a user may write, and the answer to a mistake. */

import { parseArgs } from "node:util";
import { rolloutGroup } from "../../functions/shared/annotations/table.ts";
import { isNamespaceName, isObjectName } from "../../functions/shared/base/dns-names.ts";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { groupOfBudget } from "../../functions/shared/workloads/group-key.ts";
import { functionSettings } from "../table.ts";

export interface ApiServerOptions {
  /** Undefined: the namespace of the kubeconfig's context. */
  readonly namespace: string | undefined;
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
}

/** A command that shows something, and writes nothing. */
export interface ShowArguments extends ApiServerOptions {
  readonly command: "why" | "suspended";
  /** A group, or for `suspended` also a StatefulSet; undefined: all there are. */
  readonly name: string | undefined;
  /** `text`, or one of {@link outputs}. */
  readonly output: string;
}

export interface FencedArguments extends Omit<ShowArguments, "command"> {
  readonly command: "fenced";
  /** A Node; undefined: all there are. */
  readonly name: string | undefined;
  /** Key of the annotation that marks a node. */
  readonly mark: string;
}

interface WriteOptions extends ApiServerOptions {
  readonly wait: boolean;
  readonly dryRun: boolean;
}

export interface ReleaseArguments extends WriteOptions {
  readonly command: "release";
  readonly group: string;
  readonly pod: string;
}

export interface Recover extends WriteOptions {
  readonly command: "recover";
  /** Volume claims, groups or StatefulSets; of a FoundationDBCluster its process groups. */
  readonly names: readonly string[];
  /** The FoundationDBCluster whose process groups these are; undefined for other names. */
  readonly cluster: string | undefined;
}

export interface FenceArguments extends ApiServerOptions {
  readonly command: "fence";
  readonly node: string;
  /** What the mark says. */
  readonly reason: string;
  /** Key of the annotation that marks a node. */
  readonly mark: string;
  readonly dryRun: boolean;
}

export interface ConfirmArguments extends ApiServerOptions {
  readonly command: "confirm";
  readonly node: string;
  readonly dryRun: boolean;
}

export interface RestartArguments extends ApiServerOptions {
  readonly command: "restart";
  readonly group: string;
  /** Undefined: all pods of the group. */
  readonly pod: string | undefined;
  /** `coordinated`: all processes are down at the same time. `cancel`: restarts are withdrawn. */
  readonly how: "usual" | "coordinated" | "cancel";
  readonly dryRun: boolean;
}

export type Command =
  | ShowArguments
  | ReleaseArguments
  | Recover
  | FenceArguments
  | FencedArguments
  | ConfirmArguments
  | RestartArguments
  | { readonly command: "help" };

/** A command, or a message about the mistake in its command line. */
type ReadCommand = Command | { readonly mistake: string };

export const commands = ["why", "release", "suspended", "recover", "fence", "fenced", "confirm", "restart"] as const;

/** The mark of a node for which no reason is given. */
const usualReason = "kubectl sluice fence";

/** The word before the name of a FoundationDBCluster and the process groups of it to recover. */
export const processGroups = "process-groups";

export const options = {
  namespace: { type: "string", short: "n" },
  output: { type: "string", short: "o" },
  kubeconfig: { type: "string" },
  context: { type: "string" },
  wait: { type: "boolean" },
  "dry-run": { type: "boolean" },
  reason: { type: "string" },
  mark: { type: "string" },
  yes: { type: "boolean" },
  coordinated: { type: "boolean" },
  cancel: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const;

/** The values of `--output`, by command. */
export const outputs: Readonly<Record<string, readonly string[]>> = {
  why: ["json"],
  suspended: ["json", "yaml"],
  fenced: ["json", "yaml"],
};

/** Options that only some commands have. */
export const owners: Readonly<Record<string, readonly string[]>> = {
  output: Object.keys(outputs),
  wait: ["release", "recover"],
  "dry-run": ["release", "recover", "fence", "confirm", "restart"],
  reason: ["fence"],
  mark: ["fence", "fenced"],
  yes: ["confirm"],
  coordinated: ["restart"],
  cancel: ["restart"],
};

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
  const { namespace, kubeconfig, context, output = "text", wait = false, "dry-run": dryRun = false } = values;
  const { mark = functionSettings.fenceMark.fallback } = values;
  const mistake = foreignTo(command, given) ?? wrongValue(namespace, mark);
  if (mistake !== undefined) return { mistake };
  const place = { namespace, kubeconfig, context };
  switch (command) {
    case "why":
    case "suspended":
    case "fenced": {
      const shown = readShow(command, names, output);
      if ("mistake" in shown) return shown;
      return command === "fenced" ? { command, ...place, ...shown, mark } : { command, ...place, ...shown };
    }
    case "release":
      return readRelease(names, { ...place, wait, dryRun });
    case "recover":
      return readRecover(names, { ...place, wait, dryRun });
    case "fence":
    case "confirm":
      return readNode(command, names, { ...place, ...values, dryRun, mark });
    case "restart":
      return readRestart(names, { ...place, dryRun }, values);
  }
}

const namesOf = (names: readonly string[], last: "and" | "or" = "and"): string =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} ${last} ${names.at(-1)}`;

function foreignTo(command: string, given: readonly string[]): string | undefined {
  const foreign = given.find((name) => owners[name]?.includes(command) === false);
  return foreign && `--${foreign} belongs to ${namesOf(owners[foreign] ?? [])}, not to ${command}`;
}

function wrongValue(namespace: string | undefined, mark: string): string | undefined {
  if (namespace !== undefined && !isNamespaceName(namespace))
    return `--namespace is ${JSON.stringify(namespace)}, which is no name of a namespace`;
  const { parse: parseMark, grammar } = functionSettings.fenceMark;
  return parseMark(mark) === undefined ? `--mark is ${JSON.stringify(mark)}; write ${grammar}` : undefined;
}

function parse(argv: readonly string[]) {
  return parseArgs({ args: [...argv], options, allowPositionals: true, tokens: true });
}

function readShow(
  command: (ShowArguments | FencedArguments)["command"],
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

export const help = `Says why pods of a group wait, removes a reservation that no function can act on any more, brings back suspended
volumes, fences nodes, and restarts processes inside their pods.

  kubectl sluice why [GROUP] [-n NAMESPACE] [-o json]
  kubectl sluice release GROUP POD [-n NAMESPACE] [--wait] [--dry-run]
  kubectl sluice suspended [GROUP] [-n NAMESPACE] [-o json|yaml]
  kubectl sluice recover CLAIM... | GROUP [-n NAMESPACE] [--wait] [--dry-run]
  kubectl sluice recover process-groups CLUSTER ID... [-n NAMESPACE] [--wait] [--dry-run]
  kubectl sluice fence NODE [--reason TEXT] [--mark KEY] [--dry-run]
  kubectl sluice fenced [NODE] [--mark KEY] [-n NAMESPACE] [-o json|yaml]
  kubectl sluice confirm NODE --yes [-n NAMESPACE] [--dry-run]
  kubectl sluice restart GROUP [POD] [--coordinated | --cancel] [-n NAMESPACE] [--dry-run]

GROUP is the value of the label ${rolloutGroup.key}, or ${groupOfBudget("NAME")} for the StatefulSets without that label
which the ZoneAwarePodDisruptionBudget NAME selects.

why writes nothing. It says what is ready, outdated and down in each zone of a group. It lists the reserved pods, with the
function that reserved each one and what becomes of the reservation. It says what each function last said, whether that
still holds, and what comes next. Without GROUP it prints one line for each group of the namespace.

release removes one reservation from the group's ledger. It obeys the rules of every function: it removes a reservation only
when no function can still act on it. Before that time it refuses, and says when it can and what would end the reservation
by itself. Nothing overrides that.

suspended lists the volume claims that are kept after their pods have gone: since when, for how long, how large they are,
and what each of them waits for.

recover brings the pods of suspended volume claims back, each with the same volume. It only writes the wish; a function of
Sluice carries it out. Past the point of no return it refuses, and says how the volume itself is saved. CLUSTER is a
FoundationDBCluster, and each ID a process group of it, such as storage-1.

fence marks a node that does not answer: fence-node resets it, waits for evidence that it has stopped, and lets its pods start
elsewhere. fenced lists the fences, what each of them waits for, and the agents that do not reset their node by themselves.
confirm is that evidence, by your word: write it once you have seen that the machine is off, and never before.

restart restarts the process of POD inside its pod, now; without POD those of the group, one after the other. It only writes
the wish; advance-process-restart carries it out, and why shows how it goes on.

  -n, --namespace NAMESPACE  not given: that of the kubeconfig's context; in a pod of Sluice one that it serves; for fenced and
                             confirm that of the agents' Leases, ${functionSettings.fenceNamespace.fallback}
  -o, --output json          for why, suspended and fenced: everything, for programs; the latter two know yaml, too. All times
                             are RFC 3339 by the API server's clock
      --wait                 for release: wait until it can, or until the reservation has ended; for recover: until the
                             pods are ready; Ctrl-C ends it
      --dry-run              for commands that write: say what would be done, and write nothing
      --reason TEXT          for fence: what the mark says; not given: ${usualReason}
      --mark KEY             for fence and fenced: the annotation that marks a node, as FENCE_MARK of the functions has it; not
                             given: ${functionSettings.fenceMark.fallback}
      --yes                  for confirm: the machine is off
      --coordinated          for restart: all processes of the group are down at the same time
      --cancel               for restart: withdraw what has not begun, and start again what was stopped
      --kubeconfig FILE      not given: $KUBECONFIG, a pod's service account, or ~/.kube/config
      --context NAME         not given: the kubeconfig's current one
  -h, --help

The Tab key offers commands, groups, pods and volume claims where kubectl_complete-sluice is on PATH beside this program.

Exit codes: 0 it has said or done what you asked; 1 it refuses, there is no such group, reservation, claim or node, a right is
missing, or the API server is away; 2 the command line or the kubeconfig is wrong, or Node is too old.
`;
