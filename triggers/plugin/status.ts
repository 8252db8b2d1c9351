/** `kubectl sluice status`: prints the status once, or each change of it. */
import type { Status } from "../../functions/shared/contract/status.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import type { StatusArguments } from "./commands.ts";
import { compareStatus } from "./decide-changes.ts";
import { StatusReader } from "./status-reader.ts";
import { fitScreen, formatStatus } from "./status-text.ts";
import type { ExitCode, Screen, Terminal } from "./terminal.ts";

/** How often the plugin reads the status while it watches. */
const readEveryMs = 2_000;

/** 1 if rights are missing, and without them no group is left to show. Throws NotFound, ClusterError. */
export async function printStatus(
  cluster: Cluster,
  namespace: string,
  command: StatusArguments,
  terminal: Terminal,
): Promise<ExitCode> {
  const { group, isEverywhere, isWatching, output } = command;
  const reader = new StatusReader(cluster, { namespace: isEverywhere ? undefined : namespace, group });
  const status = await reader.read();
  const isEmpty = status.groups.length === 0;
  if (isEmpty && status.leftOut.length === 0) {
    terminal.err(`there is no group in ${isEverywhere ? "any namespace" : `namespace ${namespace}`}`);
  }
  if (isWatching) return watch(reader, status, cluster, output, terminal);
  if (output === "json") terminal.out(`${JSON.stringify(status, undefined, 2)}\n`);
  else if (!isEmpty || status.leftOut.length > 0) terminal.out(formatStatus(status, terminal.emphasize));
  return isEmpty && status.leftOut.length > 0 ? 1 : 0;
}

/** Until the user ends it. A later read that fails for good, such as of a group that is deleted, ends it as well. */
async function watch(
  reader: StatusReader,
  first: Status,
  cluster: Cluster,
  output: string,
  { out, screen, interrupted }: Terminal,
): Promise<ExitCode> {
  const over = interrupted?.() ?? new AbortController().signal;
  let shown: Status | undefined;
  for (let status = first; !over.aborted; status = await reader.read()) {
    const size = output === "json" ? undefined : screen?.();
    out(size === undefined ? describeChanges(shown, status, output) : redraw(status, size, shown === undefined));
    shown = status;
    await cluster.sleep(readEveryMs, over);
  }
  return 0;
}

/** A line for each change, or the whole document on one line if anything has changed. */
function describeChanges(before: Status | undefined, after: Status, output: string): string {
  const changes = compareStatus(before, after);
  if (output !== "json") return changes.map((line) => `${after.at} ${line}\n`).join("");
  return before === undefined || changes.length > 0 ? `${JSON.stringify(after)}\n` : "";
}

const toFirstCell = "\u001b[H";
const clearScreen = "\u001b[2J";
const clearLine = "\u001b[K";
const clearBelow = "\u001b[J";

/** Over what was there, so that nothing flickers. */
function redraw(status: Status, size: Screen, isFirst: boolean): string {
  const lines = fitScreen(
    formatStatus(status, (text) => text),
    size,
  );
  const drawn = lines.map((line) => `${line}${clearLine}`).join("\n");
  return `${isFirst ? clearScreen : ""}${toFirstCell}${drawn}${clearBelow}`;
}
