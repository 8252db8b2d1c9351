/**
 * The suspended volumes of one seed: users who ask, withdraw and want back, an autoscaler, pods that hang, the functions that
 * carry this out, and the checkers.
 */
import { gcSuspendedGroups } from "../../../functions/gc-suspended-groups/function.ts";
import type { FunctionDefinition } from "../../../functions/shared/contract/definition.ts";
import { type Cluster, ClusterError } from "../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../functions/shared/kubernetes/wrap-cluster.ts";
import { ledgerName } from "../../../functions/shared/ledger/lease-name.ts";
import type { GroupKey } from "../../../functions/shared/workloads/statefulsets.ts";
import { suspendGroup } from "../../../functions/suspend-group/function.ts";
import type { StoredObject } from "../../fake-cluster/objects.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import type { Actor } from "../actor.ts";
import type { Checker } from "../checker.ts";
import { readClaims } from "../claims/checker.ts";
import { startReplica } from "../replica.ts";
import type { Connection, Role } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import { type Process, runIn } from "../simulated-cluster.ts";
import { Absences } from "./absences.ts";
import { SuspensionChecker } from "./checker.ts";
import { Deeds } from "./deeds.ts";
import { annotationOf, podOf } from "./raw.ts";
import { WaitsChecker } from "./waits-checker.ts";
import { Witnesses } from "./witnesses.ts";

interface Listener {
  readonly process: Process;
  readonly trigger: (key: GroupKey) => void;
}

/** Time between the clean-ups of a user once the troubles are over, in milliseconds. */
const personMs = 20_000;

export class Suspension implements Actor {
  readonly name = "suspension";
  readonly roles: readonly Role[];
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;
  readonly #deeds: Deeds;
  /** Undefined if no pod is asked. */
  readonly #witnesses: Witnesses | undefined;
  #listeners: readonly Listener[] = [];

  constructor(run: SeedRun) {
    this.#run = run;
    this.#deeds = new Deeds(run);
    this.#witnesses = run.plan.suspension?.asks === true ? new Witnesses(run) : undefined;
    if (run.plan.suspension === undefined) {
      this.roles = [];
      this.checkers = [];
      return;
    }
    const eventDriven = {
      watches: "itself",
      inPeace: "any",
      count: 2,
      diesAfterWrite: true,
      isInstalledApart: true,
    } as const;
    this.roles = [
      { ...eventDriven, name: "suspender", open: (connection) => this.#open(connection, suspendGroup) },
      { ...eventDriven, name: "collector", open: (connection) => this.#open(connection, gcSuspendedGroups) },
    ];
    const absences = new Absences(run);
    const checker = new SuspensionChecker(run, absences);
    this.checkers = [
      checker,
      new WaitsChecker(run, absences, () => checker.skewMs()),
      ...(this.#witnesses ? [this.#witnesses] : []),
    ];
  }

  /** Starts a process of the function. Only events of volume claims trigger it. */
  #open(connection: Connection, definition: FunctionDefinition): undefined {
    const { draw, plan, wrappers, log } = this.#run;
    const cluster = asShipped(connection.cluster);
    const pods = this.#witnesses === undefined ? {} : { pods: this.#witnesses.podsOf({ ...connection, cluster }) };
    const replica = startReplica({ ...connection, cluster }, { ...plan, draw, wrappers, log, definition, ...pods });
    this.#listeners = [
      ...this.#listeners,
      { process: connection.process, trigger: (group) => replica.trigger(group, false) },
    ];
  }

  #notify(claim: StoredObject): void {
    const { draw, plan, world, namespace, group } = this.#run;
    const set = world.store.find("statefulsets", { namespace, name: setNameOf(podOf(claim)) });
    if (set?.metadata.labels?.["rollout-group"] !== group) return;
    this.#listeners = this.#listeners.filter(({ process }) => process.alive);
    for (const { process, trigger } of this.#listeners) {
      const copies = draw.chance(plan.doubleEvents) ? 2 : 1;
      for (let copy = 0; copy < copies; copy++) {
        if (draw.chance(plan.loseEvents)) continue;
        world.timeline.after(draw.between(1, 200), () => runIn(process, () => trigger({ namespace, group })));
      }
    }
  }

  start(): void {
    const { world, plan, namespace, group, log, isVerbose } = this.#run;
    const { suspension } = plan;
    if (suspension === undefined) return;
    const annotations = {
      "sluice.dev/suspend-duration": `${suspension.durationMs / 1_000}s`,
      "sluice.dev/removal-mode": suspension.mode,
      "sluice.dev/wait-between-removals": `${suspension.waitMs / 1_000}s`,
      ...this.#witnesses?.annotations,
    };
    for (const { metadata } of this.#deeds.sets()) world.annotate({ namespace, name: metadata.name }, annotations);
    world.store.onChange("persistentvolumeclaims", ({ previous, current, final }) => {
      if (final.metadata.namespace !== namespace) return;
      if (isVerbose) log("volume", describe(current, final));
      this.#notify(final);
      const isNews = current !== undefined && previous !== undefined && stateOf(previous) !== stateOf(current);
      if (isNews) this.#react(final.metadata.name);
    });
    // A new claim announces a removal, so a user who changes their mind now does so between any two of our calls.
    world.store.onChange("leases", ({ previous, current }) => {
      if (current?.metadata.namespace !== namespace || current.metadata.name !== ledgerName(group)) return;
      const before = new Set(previous === undefined ? [] : readClaims(previous as never).map(({ id }) => id));
      for (const { id, kind, uids = {} } of readClaims(current as never))
        if (kind === "volume" && !before.has(id)) for (const name of Object.keys(uids)) this.#react(name);
    });
  }

  #react(name: string): void {
    const { world, draw, plan, isFaulty } = this.#run;
    if (!isFaulty() || !draw.chance(plan.suspension?.reacts ?? 0)) return;
    world.timeline.after(draw.between(0, 500), () => {
      if (isFaulty()) this.#try(() => this.#deeds.react(name));
    });
  }

  begin(): void {
    const { plan, world, draw, isFaulty } = this.#run;
    if (plan.suspension === undefined) return;
    const { everyMs, deeds } = plan.suspension;
    const next = () =>
      world.timeline.after(everyMs * draw.between(0.1, 2), () => {
        if (!isFaulty()) return;
        this.#try(() => this.#deeds.do(draw.pick(deeds)));
        next();
      });
    next();
  }

  makePeace(): void {
    if (this.#run.plan.suspension === undefined) return;
    this.#deeds.makePeace();
    // No pod is left that could be asked about the last volume.
    const { world, namespace } = this.#run;
    const cleared = Object.keys(this.#witnesses?.annotations ?? {}).map((one) => [one, null]);
    for (const { metadata } of this.#deeds.sets())
      if (cleared.length > 0) world.annotate({ namespace, name: metadata.name }, Object.fromEntries(cleared));
    const observe = () =>
      this.#run.world.timeline.after(personMs, () => {
        this.#deeds.takeWhatHangs();
        observe();
      });
    observe();
  }

  #try(act: () => void): void {
    try {
      act();
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      this.#run.log("user", `is refused: ${error.message}`);
    }
  }
}

/**
 * Behaves like the shipped client: it does not send a request that is too late, and a LIST does not show who has written what.
 */
function asShipped(cluster: Cluster): Cluster {
  const late = (verb: string, resource: string, notAfterMs = Number.POSITIVE_INFINITY) =>
    cluster.monotonicMs() > notAfterMs
      ? new ClusterError({ code: 0, reason: "NotSent", message: "too late to send it", verb, resource })
      : undefined;
  return wrapCluster(cluster, {
    list: async (resource, query) => {
      const list = await cluster.list(resource, query);
      const items = list.items.map((item) => ({ ...item, metadata: { ...item.metadata, managedFields: undefined } }));
      return { ...list, items: items as typeof list.items };
    },
    patch: async (resource, object, body, options) => {
      const error = late("patch", resource, options?.notAfterMs);
      if (error !== undefined) throw error;
      return cluster.patch(resource, object, body, options);
    },
    delete: async (resource, object, preconditions, options) => {
      const error = late("delete", resource, options?.notAfterMs);
      if (error !== undefined) throw error;
      return cluster.delete(resource, object, preconditions, options);
    },
  });
}

function stateOf(claim: StoredObject): string | undefined {
  return annotationOf(claim, "suspend-state");
}

function describe(current: StoredObject | undefined, { metadata }: StoredObject): string {
  const { name, uid, finalizers, deletionTimestamp, annotations } = metadata;
  if (current === undefined) return `${name} ${uid.slice(0, 8)} is gone`;
  const what = deletionTimestamp === undefined ? "" : ", being deleted";
  return `${name} ${uid.slice(0, 8)} [${finalizers?.join() ?? ""}]${what} ${JSON.stringify(annotations ?? {})}`;
}
