/** `kubectl sluice` from its command line to its exit code, over any cluster and streams. */

import { dump } from "js-yaml";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { escapeControls, escapeTexts } from "../../functions/shared/base/escape-control.ts";
import { type Cluster, ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { functionSettings } from "../table.ts";
import { readCommandLine } from "./arguments.ts";
import { codeOfCheck, formatCheck, runChecks } from "./check.ts";
import type {
  CheckArguments,
  Command,
  DrainArguments,
  FencedArguments,
  PauseArguments,
  Recover,
  ReleaseArguments,
  RestartArguments,
  ShowArguments,
  VersionArguments,
  WaitArguments,
} from "./commands.ts";
import { codeOfDrain, forecastDrain, formatDrain } from "./drain.ts";
import { confirmNode, markNode, NotFenced } from "./fence.ts";
import { formatFences, inspectFences } from "./fences.ts";
import { NotFound, readOrFail } from "./groups.ts";
import { help } from "./help.ts";
import { createShadow } from "./inspection.ts";
import { offer } from "./offer.ts";
import { NoPage, showPage } from "./page.ts";
import { NotPaused, pause } from "./pause.ts";
import { recover } from "./recover.ts";
import { NotReleased, release } from "./release.ts";
import { NotRestarted, restart } from "./restart.ts";
import { printStatus } from "./status.ts";
import { formatSuspended, inspectSuspended, inspectSuspendedEverywhere } from "./suspended.ts";
import type { ApiConnection, ExitCode, Terminal } from "./terminal.ts";
import { formatVersions, readVersions } from "./version.ts";
import { waitForGroup } from "./wait.ts";
import { printWhy } from "./why.ts";

/** What a command refuses, with a message for its user. */
const refusals = [NotFound, NotReleased, NotFenced, NotRestarted, NotPaused, NoPage];

/** Runs one command line. Every failure is one line to {@link Terminal.say}; only programming errors are thrown. */
export async function run(argv: readonly string[], given: Terminal): Promise<ExitCode> {
  const terminal = { ...given, err: (line: string) => given.err(escapeControls(line)) };
  if (argv[0] === "__complete") return offer(argv.slice(1), terminal);
  const command = readCommandLine(argv);
  if ("mistake" in command) {
    terminal.err(`${command.mistake}; see kubectl sluice --help`);
    return 2;
  }
  if (command.command === "help") {
    terminal.out(help);
    return 0;
  }
  let connection: ApiConnection;
  try {
    connection = await terminal.connect(command);
  } catch (error) {
    // A YAML parser's message shows the place on further lines.
    const [message] = messageOf(error).split("\n");
    terminal.err(`the cluster cannot be found: ${message}`);
    return 2;
  }
  try {
    const isOfFences = command.command === "fenced" || command.command === "confirm";
    const namespace =
      command.namespace ?? (isOfFences ? functionSettings.fenceNamespace.fallback : connection.namespace);
    return await carryOut(connection, namespace, command, terminal);
  } catch (error) {
    terminal.err(messageFor(error));
    return 1;
  } finally {
    await connection.close();
  }
}

async function carryOut(
  connection: ApiConnection,
  namespace: string,
  command: Exclude<Command, { command: "help" }>,
  terminal: Terminal,
): Promise<ExitCode> {
  const { cluster } = connection;
  switch (command.command) {
    case "status":
      return printStatus(cluster, namespace, command, terminal);
    case "page":
      return showPage(connection, command, terminal);
    case "why":
      return printWhy(cluster, namespace, command, terminal);
    case "suspended":
      return printSuspended(cluster, namespace, command, terminal);
    case "release":
      return clear(cluster, namespace, command, terminal);
    case "recover":
      return bringBack(cluster, namespace, command, terminal);
    case "fenced":
      return printFences(cluster, namespace, command, terminal);
    case "fence":
      return printDone(markNode(cluster, command), terminal);
    case "confirm":
      return printDone(confirmNode(cluster, namespace, command), terminal);
    case "restart":
      return printDone(restartProcesses(cluster, namespace, command), terminal);
    case "check":
      return printCheck(connection, namespace, command, terminal);
    case "version":
      return printVersions(connection, command, terminal);
    case "drain":
      return printDrain(connection, command, terminal);
    case "wait":
      return printWait(cluster, namespace, command, terminal);
    case "pause":
    case "resume":
      return printDone(pauseGroup(cluster, namespace, command), terminal);
  }
}

async function printSuspended(
  cluster: Cluster,
  namespace: string,
  { name, output, isEverywhere }: ShowArguments,
  { out, err, emphasize }: Terminal,
): Promise<ExitCode> {
  const found = isEverywhere ? inspectSuspendedEverywhere(cluster, name) : inspectSuspended(cluster, namespace, name);
  const list = escapeTexts(await found);
  const where = isEverywhere ? "any namespace" : `namespace ${namespace}`;
  if (output !== "text") out(formatData(list, output));
  else if (list.claims.length > 0) out(formatSuspended(list, emphasize));
  else err(`no volume claim is suspended in ${where}${name === undefined ? "" : ` for ${name}`}`);
  return 0;
}

const formatData = (list: object, output: string): string =>
  output === "json" ? `${JSON.stringify(list, undefined, 2)}\n` : dump(list, { lineWidth: -1 });

async function printFences(
  cluster: Cluster,
  namespace: string,
  { name, mark, output }: FencedArguments,
  { out, err, emphasize }: Terminal,
): Promise<ExitCode> {
  const list = escapeTexts(await inspectFences(cluster, namespace, { name, mark }));
  if (name !== undefined && list.nodes === 0 && list.fences.length === 0)
    throw new NotFound(`there is no Node ${name}`);
  out(output === "text" ? formatFences(list, emphasize) : formatData(list, output));
  if (list.fences.length === 0) err(name === undefined ? "no node is fenced or marked" : `${name} is not fenced`);
  return 0;
}

async function printDone(done: Promise<string>, { out }: Terminal): Promise<ExitCode> {
  out(`${escapeControls(await done)}\n`);
  return 0;
}

/** Throws NotFound, NotRestarted, ClusterError. */
async function restartProcesses(cluster: Cluster, namespace: string, command: RestartArguments): Promise<string> {
  const { view } = await readOrFail(createShadow(cluster, namespace), { namespace, group: command.group });
  return restart(cluster, view, command);
}

async function printCheck(
  connection: ApiConnection,
  namespace: string,
  command: CheckArguments,
  { out, emphasize }: Terminal,
): Promise<ExitCode> {
  const results = escapeTexts(await runChecks(connection, namespace, command.namespace));
  out(formatCheck(results, emphasize));
  return codeOfCheck(results);
}

/** 1 if neither the API server nor a replica has told its version. */
async function printVersions(
  connection: ApiConnection,
  { namespace }: VersionArguments,
  { out, err, emphasize }: Terminal,
): Promise<ExitCode> {
  const { versions, failures } = await readVersions(connection, namespace);
  out(formatVersions(escapeTexts(versions), emphasize));
  for (const failure of failures) err(messageFor(failure));
  return versions.apiServer === null && versions.replicas === null ? 1 : 0;
}

async function printDrain(
  connection: ApiConnection,
  { node, namespace }: DrainArguments,
  { out, emphasize }: Terminal,
): Promise<ExitCode> {
  const forecast = escapeTexts(await forecastDrain(connection, node, namespace));
  out(formatDrain(forecast, emphasize));
  return codeOfDrain(forecast);
}

async function printWait(
  cluster: Cluster,
  namespace: string,
  command: WaitArguments,
  { out, err }: Terminal,
): Promise<ExitCode> {
  const { code, message } = await waitForGroup(cluster, namespace, command, err);
  if (code === 0) out(`${escapeControls(message)}\n`);
  else err(message);
  return code;
}

/** Throws NotFound, NotPaused, ClusterError. */
async function pauseGroup(cluster: Cluster, namespace: string, command: PauseArguments): Promise<string> {
  const { view } = await readOrFail(createShadow(cluster, namespace), { namespace, group: command.group });
  return pause(cluster, view, command);
}

/** Each volume claim has a line of its own; 1 if any was refused. */
async function bringBack(
  cluster: Cluster,
  namespace: string,
  command: Recover,
  { out, err }: Terminal,
): Promise<ExitCode> {
  const results = await recover(cluster, namespace, command);
  for (const { isDone, message } of results) {
    if (isDone) out(`${escapeControls(message)}\n`);
    else err(message);
  }
  return results.every(({ isDone }) => isDone) ? 0 : 1;
}

function messageFor(error: unknown): string {
  if (refusals.some((refusal) => error instanceof refusal)) return (error as Error).message;
  if (!(error instanceof ClusterError)) throw error;
  const { code, reason, message } = error;
  const [firstLine] = message.split("\n");
  if (reason === "NoCredentials") return `there are no credentials for the API server: ${firstLine}`;
  if (code === 0) return `the API server does not answer: ${firstLine}`;
  if (code === 401) return `the API server does not accept the kubeconfig's credentials: ${firstLine}`;
  if (code === 403) return `a right is missing: ${firstLine}`;
  return `the API server answered ${code}: ${firstLine}`;
}

async function clear(
  cluster: Cluster,
  namespace: string,
  command: ReleaseArguments,
  { out, err }: Terminal,
): Promise<ExitCode> {
  const released = await release(cluster, namespace, command, (message) => err(`waiting: ${message}`));
  out(`${escapeControls(released)}\n`);
  return 0;
}
