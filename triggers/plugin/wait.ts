/** `kubectl sluice wait`: reads a group again and again, until it is as wanted, or cannot become so. */
import { fillTodo } from "../../functions/shared/base/guards.ts";
import { eventReasons } from "../../functions/shared/events/reasons.ts";
import { type Cluster, ClusterError, isRightMissing, isTransient } from "../../functions/shared/kubernetes/cluster.ts";
import type { Pod } from "../../functions/shared/workloads/pods.ts";
import { isWanted, type ZoneWorkload } from "../../functions/shared/workloads/statefulsets.ts";
import { table } from "../table.ts";
import type { WaitArguments } from "./commands.ts";
import {
  decideWait,
  type PresentGuard,
  type StuckPod,
  type WaitDecision,
  type WaitSnapshot,
  type WaitZone,
} from "./decide-wait.ts";
import { NotFound, readOrFail } from "./groups.ts";
import { isChosenGuard } from "./guards.ts";
import { createShadow, type GroupInspection, type Inspection, inspect } from "./inspection.ts";
import { formatSpan } from "./span.ts";
import type { ExitCode } from "./terminal.ts";

/** How a wait has ended, with its message. */
export interface WaitResult {
  readonly code: ExitCode;
  readonly message: string;
}

/** Of the functions that replace outdated pods, by the guard that they give meanwhile. */
const rollouts = new Set(table.filter(({ guards }) => Object.hasOwn(guards, "rolling")).map(({ name }) => name));
/** How often the plugin reads the group. */
const pollGroupEveryMs = 2_000;
/** Sluice sends one Event about an eviction that is held or refused in each minute of the clock. */
const eventEveryMs = 60_000;
/** Of more Events than this in a namespace none is read. */
const mostEvents = 20_000;

/**
 * Waits until a group is `done` or `idle`. `report` gets a line for each new message about what it waits for.
 *
 * The first read fails as other commands do: it throws NotFound and ClusterError. Later an API server that is away is waited for.
 */
export async function waitForGroup(
  cluster: Cluster,
  namespace: string,
  command: WaitArguments,
  report: (line: string) => void,
): Promise<WaitResult> {
  const watcher = new GroupWatcher(cluster, namespace, command, report);
  const { group, goal, timeoutMs } = command;
  const beganMs = cluster.monotonicMs();
  for (;;) {
    const { kind, message } = await watcher.decide();
    const tookMs = cluster.monotonicMs() - beganMs;
    if (kind === "reached") return { code: 0, message: `${message}, after ${formatSpan(tookMs)}` };
    if (kind === "gone") return { code: 1, message };
    if (kind === "needs-person") return { code: 3, message: `${group} is not ${goal}, and needs a person: ${message}` };
    const leftMs = timeoutMs - tookMs;
    if (leftMs <= 0) return { code: 1, message: `${group} is not ${goal} after ${formatSpan(timeoutMs)}: ${message}` };
    await cluster.sleep(Math.min(pollGroupEveryMs, leftMs));
  }
}

/** What one command remembers from read to read. */
class GroupWatcher {
  readonly #cluster: Cluster;
  readonly #namespace: string;
  readonly #command: WaitArguments;
  readonly #report: (line: string) => void;
  /** Monotonic times from which on a guard was seen without a break, by function and guard. */
  #seenSince: ReadonlyMap<string, number> = new Map();
  /** Monotonic times from which on a pod was seen to be stuck, by uid. */
  #stuckSince: ReadonlyMap<string, number> = new Map();
  #reported: string | undefined;
  #hasRead = false;
  #mayListEvents = true;

  constructor(cluster: Cluster, namespace: string, command: WaitArguments, report: (line: string) => void) {
    this.#cluster = cluster;
    this.#namespace = namespace;
    this.#command = command;
    this.#report = report;
  }

  /** One read, and what follows of it. */
  async decide(): Promise<WaitDecision> {
    const decision = await this.#readDecision();
    if (decision.kind === "waits" && decision.message !== this.#reported) this.#report(`waiting: ${decision.message}`);
    this.#reported = decision.message;
    return decision;
  }

  async #readDecision(): Promise<WaitDecision> {
    const { group } = this.#command;
    try {
      const inspection = await readOrFail(createShadow(this.#cluster, this.#namespace), {
        namespace: this.#namespace,
        group,
      });
      const snapshot = await this.#snapshot(inspection, await inspect(inspection));
      this.#hasRead = true;
      return decideWait(snapshot);
    } catch (error) {
      if (!this.#hasRead) throw error;
      if (error instanceof NotFound) return { kind: "gone", message: `${group} is gone: ${error.message}` };
      if (!isTransient(error)) throw error;
      return { kind: "waits", message: `the API server does not answer: ${error.message}` };
    }
  }

  async #snapshot({ view, unreadable }: Inspection, inspected: GroupInspection): Promise<WaitSnapshot> {
    const { group, goal } = this.#command;
    const open = inspected.reservations.filter(({ standing }) => standing === "open");
    const takers = new Set([...open, ...inspected.claims].map(({ function: by }) => by));
    const nowMs = Date.parse(inspected.at);
    const pods = view.workloads.flatMap((workload) =>
      [...view.podsOf(workload)].filter(({ ordinal }) => isWanted(workload, ordinal)).map((pod) => ({ pod, workload })),
    );
    const zones = view.workloads.map((workload): WaitZone => {
      const zone = inspected.zones.find(({ name }) => name === workload.name);
      const isStatefulSet = workload.kind === "StatefulSet";
      const down = (zone?.down ?? []).filter(({ why }) => why !== "reserved" && why !== "claimed");
      return {
        name: workload.name,
        wanted: workload.replicas,
        down: down.length + (zone?.missingBesides ?? 0),
        outdated: zone?.outdated ?? 0,
        isBehind: isStatefulSet && workload.updateRevision === undefined,
        isDeleting: isStatefulSet && workload.deleting,
        isRolledBySluice: isStatefulSet && workload.strategy === "OnDelete",
      };
    });
    return {
      group,
      goal,
      zones,
      guards: this.#guardsOf(inspected, takers, nowMs),
      stuck: this.#stuckOf(pods, nowMs),
      lastReadyMs: lastOf(pods.flatMap(({ pod: { readySinceMs } }) => readySinceMs ?? [])),
      taken: [
        ...open.map(({ pod, function: by }) => `${pod} is reserved by ${by}`),
        ...inspected.claims.map(({ zone, kind, function: by }) => `${zone} has a claim ${kind} of ${by}`),
      ],
      unreadable,
      lastEvictionMs: goal === "idle" ? await this.#lastEvictionMs(zones) : undefined,
      nowMs,
    };
  }

  /** The guards that functions give now. A guard has held since the ledger says so, or since this command has seen it. */
  #guardsOf({ functions }: GroupInspection, takers: ReadonlySet<string>, nowMs: number): readonly PresentGuard[] {
    const monotonicMs = this.#cluster.monotonicMs();
    const seenSince = new Map<string, number>();
    const guards = functions.flatMap(({ function: by, recorded, now, stale }): readonly PresentGuard[] => {
      const shown = now ?? (stale ? null : recorded);
      if (shown === null) return [];
      const { guard, sentence: message, ends, todo } = shown;
      const key = `${by} ${guard}`;
      const sinceMs = this.#seenSince.get(key) ?? monotonicMs;
      seenSince.set(key, sinceMs);
      const recordedMs = recorded?.guard === guard ? nowMs - Date.parse(recorded.since) : 0;
      const lastedMs = Math.max(recordedMs, monotonicMs - sinceMs);
      const kind = { isChosen: isChosenGuard(by, guard), isRollout: rollouts.has(by), hasTaken: takers.has(by) };
      return [{ function: by, guard, message, ends, todo, lastedMs, ...kind }];
    });
    this.#seenSince = seenSince;
    return guards;
  }

  /** A pod that was never ready has been stuck since it was made, and another one since this command has seen it. */
  #stuckOf(pods: readonly WantedPod[], nowMs: number): readonly StuckPod[] {
    const monotonicMs = this.#cluster.monotonicMs();
    const stuckSince = new Map<string, number>();
    const stuck = pods.flatMap(({ pod: { name, uid, stuck: why, revision, neverReady, createdMs }, workload }) => {
      // Sluice replaces a pod of another revision.
      if (why === undefined || revision !== workload.updateRevision) return [];
      const sinceMs = this.#stuckSince.get(uid) ?? monotonicMs;
      stuckSince.set(uid, sinceMs);
      const ageMs = neverReady && !Number.isNaN(createdMs) ? nowMs - createdMs : 0;
      const todo = fillTodo(
        { todo: "kubectl describe pod -n {namespace} {pod}" },
        { namespace: this.#namespace, pod: name },
      );
      return [{ pod: name, why, lastedMs: Math.max(ageMs, monotonicMs - sinceMs), todo }];
    });
    this.#stuckSince = stuckSince;
    return stuck;
  }

  /** The end of the minute of the last Event about an eviction that was held or refused in one of these zones. */
  async #lastEvictionMs(zones: readonly WaitZone[]): Promise<number | undefined> {
    if (!this.#mayListEvents) return undefined;
    try {
      const { items } = await this.#cluster.list("events", { namespace: this.#namespace, atMost: mostEvents });
      const reasons: readonly string[] = [eventReasons.evictionRefused, eventReasons.evictionWaits];
      const names = new Set(zones.map(({ name }) => name.slice(0, 230)));
      const times = items
        .filter(({ reason = "", metadata }) => reasons.includes(reason) && names.has(subjectOf(metadata.name)))
        .map(({ lastTimestamp = "" }) => Date.parse(lastTimestamp))
        .filter((ms) => !Number.isNaN(ms));
      // Within its minute Sluice sends no second Event about a further eviction.
      const lastMs = lastOf(times);
      return lastMs && (Math.floor(lastMs / eventEveryMs) + 1) * eventEveryMs;
    } catch (error) {
      if (!isRightMissing(error) && !(error instanceof ClusterError && error.code === 413)) throw error;
      this.#mayListEvents = false;
      const why = error.code === 413 ? "there are too many Events" : `a right is missing: ${error.message}`;
      this.#report(`evictions that are held or refused do not count: ${why}`);
      return undefined;
    }
  }
}

interface WantedPod {
  readonly pod: Pod;
  readonly workload: ZoneWorkload;
}

function lastOf(times: readonly number[]): number | undefined {
  return times.length === 0 ? undefined : Math.max(...times);
}

/** The name of the object that an Event of Sluice is about, by the name of the Event. */
function subjectOf(event: string): string {
  return event.replace(/\.[0-9a-f]{16}$/, "");
}
