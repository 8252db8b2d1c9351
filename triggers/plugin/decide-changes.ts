/** What has changed between two reads of the status: a line for each. Pure. */
import type { GroupStatus, Status } from "../../functions/shared/contract/status.ts";
import { groupPathOf } from "../../functions/shared/workloads/statefulsets.ts";

/** What has a line, by what it is about. `over` is the line when it is gone. */
type Facts = ReadonlyMap<string, { readonly line: string; readonly over: string }>;

/** Without a status before, everything is a change. Times alone are none. */
export function compareStatus(before: Status | undefined, after: Status): readonly string[] {
  const [old, present] = [before === undefined ? new Map() : factsOf(before), factsOf(after)];
  const over = [...old].flatMap(([about, fact]: [string, { readonly over: string }]) =>
    present.has(about) ? [] : [fact.over],
  );
  return [...over, ...[...present].flatMap(([about, { line }]) => (old.get(about)?.line === line ? [] : [line]))];
}

function factsOf({ unansweredSince, leftOut, needsPerson, groups, waiting, volumes }: Status): Facts {
  const facts = new Map<string, { readonly line: string; readonly over: string }>();
  const add = (about: readonly unknown[], line: string, over: string) =>
    facts.set(JSON.stringify(about), { line, over });
  if (unansweredSince !== null)
    add(["unanswered"], `no answer of the API server since ${unansweredSince}`, "the API server answers again");
  for (const { part, why } of leftOut) add(["left out", part], `not shown: ${part}: ${why}`, `shown again: ${part}`);
  for (const { reason, namespace, object, guard, sentence: message, todo } of needsPerson) {
    const what = `${namespace}/${object}: ${guard ?? reason}`;
    const whatToDo = todo === null ? "" : `. To do: ${todo}`;
    add(["person", reason, what], `needs you: ${what}: ${message}${whatToDo}`, `needs you no more: ${what}`);
  }
  for (const group of groups) {
    const path = groupPathOf(group);
    add(["group", path], `${path}: ${describeGroup(group)}`, `${path}: gone`);
  }
  for (const { namespace, zone, guard, sentence: message, refused } of waiting ?? []) {
    const what = `eviction in ${namespace}/${zone} ${refused ? "refused" : "waits"}: ${guard}`;
    add(["eviction", what], `${what}: ${message}`, `no more: ${what}`);
  }
  for (const { namespace, name, state } of volumes ?? []) {
    const what = `volume claim ${namespace}/${name}`;
    add(["volume", what], `${what}: ${state}`, `${what}: not kept any more`);
  }
  return facts;
}

function describeGroup({ state, updated, wanted, ready, functions, restarts }: GroupStatus): string {
  const verdicts = functions.flatMap(({ recorded: { guard, sentence: message } }) =>
    guard === "done" ? [] : [`${guard}: ${message}`],
  );
  const ofProcesses = restarts.map((one) => `restart of ${one.zone} ${one.pods}: ${one.state}`);
  return [`${state}, ${updated} of ${wanted} updated, ${ready} ready`, ...verdicts, ...ofProcesses].join("; ");
}
