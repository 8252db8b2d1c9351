/** `kubectl sluice pause` and `resume`: write or remove the annotation that stops the rollout of a zone. */
import { rolloutGroup, rolloutPaused } from "../../functions/shared/annotations/table.ts";
import { fillTodo } from "../../functions/shared/base/guards.ts";
import type { GroupView } from "../../functions/shared/cache/cache.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { readGroup } from "../../functions/shared/workloads/group-key.ts";
import { isStatefulSet, type StatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import { annotate } from "./annotate.ts";
import type { PauseArguments } from "./commands.ts";

/** The command applies to nothing that exists, or to nothing that Sluice rolls, as the message says. */
export class NotPaused extends Error {}

const { key: pausedKey } = rolloutPaused;

/**
 * Writes or removes the annotation on each chosen StatefulSet that needs it, and resolves to a message about that, and about what
 * a pause does not stop. Throws {@link NotPaused} and ClusterError.
 */
export async function pause(cluster: Cluster, view: GroupView, command: PauseArguments): Promise<string> {
  const sets = chosenOf(view, command);
  const written: string[] = [];
  for (const set of sets) {
    try {
      if (await write(cluster, set, command)) written.push(set.name);
    } catch (error) {
      if (written.length === 0 || !(error instanceof NotPaused)) throw error;
      throw new NotPaused(`${error.message}; before that, ${describeWrites(written, command)}`);
    }
  }
  const [{ namespace }] = sets;
  const isPausing = command.command === "pause";
  if (written.length === 0)
    return `nothing to do: ${sets.map(({ name }) => name).join(", ")}: ${isPausing ? "paused already" : "not paused"}`;
  const what = describeWrites(written, command);
  if (command.dryRun) return `would be done: ${what}`;
  return [what, ...(isPausing ? effectOf(sets, command, namespace) : [])].join(". ");
}

function describeWrites(names: readonly string[], { command }: PauseArguments): string {
  const what = command === "pause" ? `${pausedKey}: true is written on` : `${pausedKey} is taken off`;
  return `${what} StatefulSet ${names.join(", ")}`;
}

function effectOf(sets: readonly StatefulSet[], { group, zone }: PauseArguments, namespace: string): readonly string[] {
  const others = sets.filter(({ strategy }) => strategy !== "OnDelete").map(({ name }) => name);
  const end = `kubectl sluice resume {group}${zone === undefined ? "" : " {zone}"} -n {namespace}`;
  return [
    "It stops rollouts there within 5 s, and neither evictions nor downscales",
    ...others.map((name) => `The controller of ${name} rolls it nevertheless, because it is not OnDelete`),
    `${fillTodo({ todo: end }, { namespace, group, zone: zone ?? "" })} lets the rollout go on`,
  ];
}

/** Throws {@link NotPaused}. */
function chosenOf(view: GroupView, { command, group, zone }: PauseArguments): readonly [StatefulSet, ...StatefulSet[]] {
  const sets = view.workloads.filter(isStatefulSet);
  if (readGroup(group).kind !== "labelled")
    throw new NotPaused(
      `Sluice rolls only StatefulSets with ${rolloutGroup.key}, so that ${command} has no effect here`,
    );
  const names = sets.map(({ name }) => name);
  const [first, ...more] = sets.filter(({ name }) => zone === undefined || name === zone);
  if (first !== undefined) return [first, ...more];
  if (zone === undefined) throw new NotPaused(`no StatefulSet is in ${group} any more`);
  throw new NotPaused(`there is no StatefulSet ${zone} in the group ${group}: there are ${names.join(", ") || "none"}`);
}

/** True if something was, or would be written. Throws {@link NotPaused} and ClusterError. */
async function write(cluster: Cluster, { namespace, name }: StatefulSet, command: PauseArguments): Promise<boolean> {
  const text = command.command === "pause" ? "true" : null;
  let isNeeded = false;
  const isSettled = await annotate(cluster, "statefulsets", { namespace, name }, (object) => {
    if (object === undefined) throw new NotPaused(`there is no StatefulSet ${name} any more`);
    isNeeded = (object.metadata.annotations?.[pausedKey] ?? null) !== text;
    return isNeeded && !command.dryRun ? { [pausedKey]: text } : undefined;
  });
  if (isSettled) return isNeeded;
  throw new NotPaused(`nothing was written on StatefulSet ${name}: other clients write it all the time; try again`);
}
