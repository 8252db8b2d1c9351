/** `kubectl sluice restart`: writes the wish to restart processes inside their pods, or withdraws it. */
import { restartManager, restartPhase } from "../../functions/shared/annotations/restart.ts";
import type { GroupView } from "../../functions/shared/cache/cache.ts";
import type { Cluster, Metadata, ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import { find } from "../../functions/shared/kubernetes/find.ts";
import type { Pod } from "../../functions/shared/workloads/pods.ts";
import { isStatefulSet, type StatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import { annotate } from "./annotate.ts";
import type { RestartArguments } from "./commands.ts";

/** The command applies to nothing that exists, or not to its present state, as the message says. */
export class NotRestarted extends Error {}

/** A phase to write on an object. */
interface PhaseWrite {
  readonly resource: "pods" | "statefulsets";
  readonly key: ObjectKey;
  /** `schedule`, `schedule-rolling`, `schedule-coordinated` or `cancel`; null takes the present one off. */
  readonly phase: string | null;
  /** For a withdrawal the object must have a phase, and for any other write none but `failed`. */
  readonly withdraws: boolean;
}

const { key: phaseKey } = restartPhase;
const cancelled = "cancel";
const phaseOf = ({ annotations }: Metadata): string | undefined => annotations?.[phaseKey];
const describe = ({ resource, key }: PhaseWrite): string =>
  `${resource === "pods" ? "pod" : "StatefulSet"} ${key.name}`;

/**
 * Writes what a command asks for, each annotation under the uid and the revision of a read that permits it, and resolves to a
 * message about it. The state of all objects is checked before the first write. Throws {@link NotRestarted} and ClusterError.
 */
export async function restart(cluster: Cluster, view: GroupView, command: RestartArguments): Promise<string> {
  const writes = writesOf(view, command);
  for (const one of writes) checkPermitted((await find(cluster, one.resource, one.key))?.metadata, one);
  const done: PhaseWrite[] = [];
  for (const one of writes) {
    try {
      if (!command.dryRun) await write(cluster, one);
      done.push(one);
    } catch (error) {
      if (done.length === 0 || !(error instanceof NotRestarted)) throw error;
      throw new NotRestarted(`${error.message}; before that, ${messageOf(done, command)}`);
    }
  }
  return messageOf(done, command);
}

function messageOf(done: readonly PhaseWrite[], { group, dryRun }: RestartArguments): string {
  const by = Map.groupBy(done, ({ phase }) => phase);
  const parts = [...by].map(([phase, writes]) => {
    const what = phase === null ? `${phaseKey} is taken off` : `${phaseKey}: ${phase} is written on`;
    return `${what} ${writes.map(describe).join(", ")}`;
  });
  const follow = `kubectl sluice why ${group} -n ${done[0]?.key.namespace} shows how it goes on`;
  return dryRun ? `would be done: ${parts.join("; ")}` : `${parts.join("; ")}. ${follow}`;
}

/** By the view of the group. Throws {@link NotRestarted}. */
function writesOf(view: GroupView, { group, pod: name, how }: RestartArguments): readonly PhaseWrite[] {
  const all = view.workloads.filter(isStatefulSet);
  const managed = all.filter(isManaged);
  if (managed.length === 0)
    throw new NotRestarted(
      `no StatefulSet of ${group} names a process manager, so that no process of it can be restarted inside its pod: write ${restartManager.key}`,
    );
  const pods = managed.flatMap((one) => [...view.podsOf(one)]);
  if (name !== undefined) return [writeForPod(pods, all, name, group, how)];
  if (how === cancelled) return withdrawals(managed, pods, group);
  const failed = pods.find(({ restart: shown }) => shown?.phase === "failed");
  if (failed !== undefined)
    throw new NotRestarted(
      `the restart of ${failed.name} has failed, and no other pod restarts before it: kubectl sluice restart ${group} ${failed.name} tries again, and with --cancel leaves it`,
    );
  const unmanaged = all.find((one) => !isManaged(one));
  if (how === "coordinated" && unmanaged !== undefined)
    throw new NotRestarted(
      `${unmanaged.name} names no process manager, and a coordinated restart needs all StatefulSets of ${group}: write ${restartManager.key}`,
    );
  const phase = how === "coordinated" ? "schedule-coordinated" : "schedule-rolling";
  return managed.map(({ namespace, name: set }) => writeFor("statefulsets", { namespace, name: set }, phase));
}

function isManaged({ restart: settings, deleting }: StatefulSet): boolean {
  return settings?.manager !== undefined && !deleting;
}

function writeForPod(
  pods: readonly Pod[],
  all: readonly StatefulSet[],
  name: string,
  group: string,
  how: RestartArguments["how"],
): PhaseWrite {
  const pod = pods.find((one) => one.name === name);
  if (pod !== undefined) return writeFor("pods", pod, how === cancelled ? cancelled : "schedule");
  const owner = all.find((one) => !isManaged(one) && name.startsWith(`${one.name}-`));
  if (owner !== undefined)
    throw new NotRestarted(
      `${owner.name} names no process manager, or not completely, or is being deleted, so that its pods are not restarted in place`,
    );
  throw new NotRestarted(`there is no pod ${name} in the group ${group}`);
}

/** First from the StatefulSets: otherwise their phase is written to pods whose restart was just withdrawn. */
function withdrawals(sets: readonly StatefulSet[], pods: readonly Pod[], group: string): readonly PhaseWrite[] {
  const wanted = sets.filter(({ restart: settings }) => settings?.phaseOfAll !== undefined);
  const begun = pods.filter(({ restart: shown }) => shown?.text !== undefined && shown.text !== cancelled);
  if (wanted.length + begun.length === 0)
    throw new NotRestarted(`no pod of ${group} is to restart, so that nothing can be withdrawn`);
  return [
    ...wanted.map((one) => writeFor("statefulsets", one, null)),
    ...begun.map((one) => writeFor("pods", one, cancelled)),
  ];
}

function writeFor(resource: PhaseWrite["resource"], { namespace, name }: ObjectKey, phase: string | null): PhaseWrite {
  return { resource, key: { namespace, name }, phase, withdraws: phase === null || phase === cancelled };
}

/** Throws {@link NotRestarted} unless the object as it is now may get the phase. */
function checkPermitted(metadata: Metadata | undefined, one: PhaseWrite): void {
  if (metadata === undefined) throw new NotRestarted(`there is no ${describe(one)} any more`);
  const present = phaseOf(metadata);
  if (one.withdraws && present === undefined)
    throw new NotRestarted(`${describe(one)} has no phase, so that nothing can be withdrawn`);
  if (!one.withdraws && metadata.deletionTimestamp !== undefined)
    throw new NotRestarted(`${describe(one)} is being deleted: the pods that follow have new processes`);
  if (!one.withdraws && present !== undefined && present !== "failed")
    throw new NotRestarted(`${describe(one)} has the phase ${present} already: --cancel withdraws that`);
}

async function write(cluster: Cluster, one: PhaseWrite): Promise<void> {
  const isSettled = await annotate(cluster, one.resource, one.key, (object) => {
    checkPermitted(object?.metadata, one);
    return { [phaseKey]: one.phase };
  });
  if (!isSettled)
    throw new NotRestarted(`nothing was written on ${describe(one)}: other clients write it all the time; try again`);
}
