/** One trial: a fresh group and one contender, neither of which leaves anything behind. */
import { mkdir } from "node:fs/promises";
import { loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Api, ApiError, eventually } from "../controlplane/api.ts";
import { auditPosition, type RequestCount, summariseAudit } from "../controlplane/audit.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import {
  createGroup,
  deleteGroup,
  type FixtureGroup,
  type GroupOptions,
  waitForGroupReady,
} from "../controlplane/fixtures.ts";
import { type Contender, type ContenderName, type StartOptions, startContender } from "./contenders.ts";
import type { Shipped } from "./shipped.ts";
import { podsOf, type Size } from "./sizes.ts";
import { type Usage, usageOf } from "./usage.ts";

/** The control plane and the programs for trials. */
export interface TestBed {
  readonly controlPlane: ControlPlane;
  /** Each Sluice that takes part, by name. */
  readonly shipped: ReadonlyMap<ContenderName, Shipped>;
  readonly peerBinary: string | undefined;
  /** Number in the namespace's name, which no other trial of this control plane has had. */
  readonly number: number;
  /** More flags for the Node that runs Sluice. */
  readonly nodeFlags: readonly string[];
  readonly signal: AbortSignal;
}

export interface Trial<Figures> {
  readonly contender: ContenderName;
  readonly size: string;
  /** Load of the machine in the minute before it began. */
  readonly load: number;
  readonly figures: Figures | undefined;
  /** Why there are no figures. */
  readonly failure: string | undefined;
}

/** A group whose pods are all Ready, and the contender that is measured on it. */
export interface Scene extends TestBed {
  readonly contender: ContenderName;
  readonly size: Size;
  /** The first of the groups. */
  readonly group: FixtureGroup;
  readonly groups: readonly FixtureGroup[];
}

export const userAgent = "sluice-test-bench";

/**
 * Runs a trial on fresh groups and removes them from the control plane, with the namespace, the ledger and the Events. An
 * error of `measure` becomes the trial's failure. `more`: what the StatefulSets have in addition.
 */
export async function runTrial<Figures>(
  place: TestBed,
  contender: ContenderName,
  size: Size,
  measure: (scene: Scene) => Promise<Figures>,
  more: Pick<GroupOptions, "labels" | "annotations" | "nodeLabels"> = {},
): Promise<Trial<Figures>> {
  const { controlPlane, signal } = place;
  const namespace = `bench-${place.number}`;
  const { zones, pods, budget: maxUnavailable } = size;
  const timeoutMs = 60_000 + 100 * podsOf(size);
  const groups: FixtureGroup[] = [];
  for (let n = 1; n <= (size.groups ?? 1); n++) {
    const name = n === 1 ? "bench" : `bench-${n}`;
    groups.push(await createGroup(controlPlane, { name, namespace, zones, pods, maxUnavailable, ...more }));
  }
  for (const group of groups) await waitForGroupReady(controlPlane, group, { timeoutMs, everyMs: 500 });
  const [group] = groups;
  if (group === undefined) throw new Error("a trial has a group at least");
  const [load = 0] = loadavg();
  const about = { contender, size: size.label, load };
  try {
    return { ...about, figures: await measure({ ...place, contender, size, group, groups }), failure: undefined };
  } catch (error) {
    signal.throwIfAborted();
    return { ...about, figures: undefined, failure: (error as Error).message };
  } finally {
    if (!signal.aborted) await clearAway(controlPlane, groups, timeoutMs);
  }
}

/** Starts the scene's contender, runs `work`, and ends the contender. */
export async function withContender<T>(
  { controlPlane, contender: name, group, shipped, peerBinary, nodeFlags, signal }: Scene,
  { pair, restMs, pods, settings, through }: Pick<StartOptions, "pair" | "restMs" | "pods" | "settings" | "through">,
  work: (contender: Contender) => Promise<T>,
): Promise<T> {
  const logs = join(controlPlane.directory, "contenders");
  await mkdir(logs, { recursive: true });
  const contender = await startContender(name, {
    access: controlPlane,
    shipped,
    peerBinary,
    namespace: group.namespace,
    group: group.name,
    logFile: join(logs, `${group.namespace}-${name}.log`),
    nodeFlags,
    pair,
    pods,
    settings,
    through,
    restMs,
    signal,
  });
  try {
    return await work(contender);
  } finally {
    await contender.stop();
  }
}

/** What was used in a period of time. */
export interface Effort {
  /** Requests of the contender without watches, but with Events. */
  readonly requests: number;
  readonly watches: number;
  readonly requestCounts: readonly RequestCount[];
  /** Bytes that the contender has read: answers and watches, encrypted as they came, and files. */
  readonly bytesRead: number;
  readonly cpuSeconds: number;
  /** Memory at the end, and its peak since the contender's start. */
  readonly residentBytes: number;
  readonly peakResidentBytes: number;
  /** Processor time of etcd, API server and controller manager, and of this process with load, kubelets and observer. */
  readonly controlPlaneCpuSeconds: number;
  readonly harnessCpuSeconds: number;
}

/**
 * Starts to count. Resolves to a function that ends the period and resolves to the figures. Throws if the contender has ended.
 */
export async function measureEffort(controlPlane: ControlPlane, contender: Contender): Promise<() => Promise<Effort>> {
  const from = await auditPosition(controlPlane.auditLog);
  const before = await allUsage(controlPlane, contender);
  return async () => {
    await contender.check();
    const after = await allUsage(controlPlane, contender);
    // The API server logs a request just after it has answered it.
    await delay(200);
    const audit = await summariseAudit(controlPlane.auditLog, [contender.userAgent], { from });
    const { requests, watches } = audit.clients[contender.userAgent] ?? { requests: 0, watches: 0 };
    return {
      requests,
      watches,
      requestCounts: audit.requests.filter(({ client }) => client === contender.userAgent),
      bytesRead: after.contender.bytesRead - before.contender.bytesRead,
      cpuSeconds: after.contender.cpuSeconds - before.contender.cpuSeconds,
      residentBytes: after.contender.residentBytes,
      peakResidentBytes: after.contender.peakResidentBytes,
      controlPlaneCpuSeconds: after.controlPlaneCpuSeconds - before.controlPlaneCpuSeconds,
      harnessCpuSeconds: after.harnessCpuSeconds - before.harnessCpuSeconds,
    };
  };
}

interface AllUsage {
  readonly contender: Usage;
  readonly controlPlaneCpuSeconds: number;
  readonly harnessCpuSeconds: number;
}

async function allUsage(controlPlane: ControlPlane, contender: Contender): Promise<AllUsage> {
  const own = process.cpuUsage();
  const [used, ...others] = await Promise.all([contender.pid, ...Object.values(controlPlane.pids())].map(usageOf));
  return {
    contender: used as Usage,
    controlPlaneCpuSeconds: others.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
    harnessCpuSeconds: (own.user + own.system) / 1e6,
  };
}

async function clearAway(
  controlPlane: ControlPlane,
  groups: readonly FixtureGroup[],
  timeoutMs: number,
): Promise<void> {
  await Promise.all(groups.map((group) => deleteGroup(controlPlane, group, timeoutMs)));
  const api = await Api.open(controlPlane, { userAgent, connections: 1 });
  const namespace = groups[0]?.namespace;
  const path = `/api/v1/namespaces/${namespace}`;
  try {
    await api.delete(path);
    await eventually(`namespace ${namespace} gone`, timeoutMs, () =>
      api.get(path).then(
        () => undefined,
        (error: unknown) => (error instanceof ApiError && error.status === 404 ? true : undefined),
      ),
    );
  } finally {
    await api.close();
  }
}
