/** One trial: a fresh group, one contender, one change of the template, and what that took. */
import { mkdir } from "node:fs/promises";
import { loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Api, ApiError, eventually } from "../controlplane/api.ts";
import { auditPosition, type RequestCount, summariseAudit } from "../controlplane/audit.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate, createGroup, deleteGroup, type Group, waitForGroupReady } from "../controlplane/fixtures.ts";
import { type Contender, type ContenderName, startContender } from "./contenders.ts";
import { type Observation, Observer } from "./observer.ts";
import { limitMs, type Size } from "./sizes.ts";
import type { ZoneReport } from "./tally.ts";
import { type Usage, usageOf } from "./usage.ts";

export interface TrialOptions {
  readonly controlPlane: ControlPlane;
  readonly peerBinary: string | undefined;
  readonly contender: ContenderName;
  readonly size: Size;
  /** Makes the namespace's name: one that no other trial of this control plane has had. */
  readonly number: number;
  /** More flags for the node that runs Sluice. */
  readonly nodeFlags: readonly string[];
  readonly signal: AbortSignal;
}

/** The figures of a trial that ended. Times are from the moment before the first StatefulSet was patched. */
export interface Figures {
  /** To the last pod's readiness on the new revision, and the same divided by the limit. */
  readonly rolloutMs: number;
  readonly timeOverLimit: number;
  readonly zones: readonly ZoneReport[];
  readonly mostDown: number;
  readonly mostZonesDown: number;
  /** Of the contender, without watches, until {@link tailMs} after the end; Events are among them. */
  readonly requests: number;
  readonly watches: number;
  readonly requestCounts: readonly RequestCount[];
  readonly requestsPerPod: number;
  /** Of the contender in the same time: answers and watches, encrypted, as they came. */
  readonly bytesPerPod: number;
  readonly cpuSeconds: number;
  readonly peakResidentBytes: number;
  readonly residentBytes: number;
  /** Of etcd, API server and controller manager in the same time, and of this process: kubelets and observer. */
  readonly controlPlaneCpuSeconds: number;
  readonly harnessCpuSeconds: number;
}

export interface Trial {
  readonly contender: ContenderName;
  readonly size: string;
  /** Load of the machine over the minute before the rollout began. */
  readonly load: number;
  readonly figures: Figures | undefined;
  /** Why there are no figures. */
  readonly failure: string | undefined;
}

/** Requests are counted until this long after the last pod is Ready: what is written then belongs to the rollout too. */
export const tailMs = 6_000;
const images = { before: "app:1", after: "app:2" };

/** Runs a trial and leaves nothing of it in the control plane. A contender that does not get there is a failure, not an error. */
export async function runTrial(options: TrialOptions): Promise<Trial> {
  const { controlPlane, contender, size, signal } = options;
  const namespace = `bench-${options.number}`;
  const group = await createGroup(controlPlane, {
    name: "bench",
    namespace,
    zones: size.zones,
    pods: size.pods,
    maxUnavailable: size.budget,
    image: images.before,
  });
  const all = size.zones * size.pods;
  await waitForGroupReady(controlPlane, group, { timeoutMs: 60_000 + 100 * all, everyMs: 500 });
  const [load = 0] = loadavg();
  const about = { contender, size: size.label, load };
  try {
    return { ...about, figures: await measure(options, group), failure: undefined };
  } catch (error) {
    signal.throwIfAborted();
    return { ...about, figures: undefined, failure: (error as Error).message };
  } finally {
    if (!signal.aborted) await clearAway(controlPlane, group, 60_000 + 100 * all);
  }
}

async function measure(options: TrialOptions, group: Group): Promise<Figures> {
  const { controlPlane, size, signal } = options;
  const logs = join(controlPlane.directory, "contenders");
  await mkdir(logs, { recursive: true });
  const contender = await startContender(options.contender, {
    access: controlPlane,
    peerBinary: options.peerBinary,
    namespace: group.namespace,
    group: group.name,
    logFile: join(logs, `${group.namespace}-${options.contender}.log`),
    nodeFlags: options.nodeFlags,
    signal,
  });
  try {
    const observer = await Observer.start(controlPlane, group, images.after);
    try {
      return await rollOut(controlPlane, contender, observer, size, group, signal);
    } finally {
      await observer.close();
    }
  } finally {
    await contender.stop();
  }
}

async function rollOut(
  controlPlane: ControlPlane,
  contender: Contender,
  observer: Observer,
  size: Size,
  group: Group,
  signal: AbortSignal,
): Promise<Figures> {
  const from = await auditPosition(controlPlane.auditLog);
  const before = await allUsage(controlPlane, contender);
  const startedMs = performance.now();
  await changeTemplate(controlPlane, group, images.after);
  const doneMs = await ended(observer, contender, 10 * limitMs(size) + 60_000, signal);
  await delay(tailMs, undefined, { signal });
  await contender.check();
  const after = await allUsage(controlPlane, contender);
  // The API server logs a request just after it has answered it.
  await delay(200);
  const audit = await summariseAudit(controlPlane.auditLog, [contender.userAgent], { from });
  const sums = audit.clients[contender.userAgent] ?? { requests: 0, watches: 0 };
  const all = size.zones * size.pods;
  return {
    ...timesOf(observer.observation(), startedMs, doneMs, size),
    requests: sums.requests,
    watches: sums.watches,
    requestCounts: audit.requests.filter(({ client }) => client === contender.userAgent),
    requestsPerPod: sums.requests / all,
    bytesPerPod: (after.contender.bytesRead - before.contender.bytesRead) / all,
    cpuSeconds: after.contender.cpuSeconds - before.contender.cpuSeconds,
    peakResidentBytes: after.contender.peakResidentBytes,
    residentBytes: after.contender.residentBytes,
    controlPlaneCpuSeconds: after.controlPlaneCpuSeconds - before.controlPlaneCpuSeconds,
    harnessCpuSeconds: after.harnessCpuSeconds - before.harnessCpuSeconds,
  };
}

/** The observer's clock, made relative to the start. */
function timesOf(observation: Observation, startedMs: number, doneMs: number, size: Size) {
  const since = (ms: number | undefined) => (ms === undefined ? undefined : Math.round(ms - startedMs));
  return {
    rolloutMs: Math.round(doneMs - startedMs),
    timeOverLimit: (doneMs - startedMs) / limitMs(size),
    zones: observation.zones.map((zone) => ({
      ...zone,
      firstDownMs: since(zone.firstDownMs),
      doneMs: since(zone.doneMs),
    })),
    mostDown: Math.max(...observation.zones.map(({ mostDown }) => mostDown)),
    mostZonesDown: observation.mostZonesDown,
  };
}

/** Waits for the last pod, and looks now and then whether the contender is still there. */
async function ended(
  observer: Observer,
  contender: Contender,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<number> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const doneMs = await Promise.race([observer.done, delay(250, undefined, { signal })]);
    if (doneMs !== undefined) return doneMs;
    await contender.check();
    if (performance.now() < deadlineMs) continue;
    const zones = observer.observation().zones.filter((zone) => zone.doneMs === undefined);
    throw new Error(`not rolled within ${Math.round(timeoutMs / 1000)} s: ${zones.map(({ zone }) => zone).join(", ")}`);
  }
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

/** The namespace goes too, and with it the ledger and the Events. */
async function clearAway(controlPlane: ControlPlane, group: Group, timeoutMs: number): Promise<void> {
  await deleteGroup(controlPlane, group, timeoutMs);
  const api = await Api.open(controlPlane, { userAgent: "sluice-test-bench", connections: 1 });
  const path = `/api/v1/namespaces/${group.namespace}`;
  try {
    await api.delete(path);
    await eventually(`namespace ${group.namespace} gone`, timeoutMs, () =>
      api.get(path).then(
        () => undefined,
        (error: unknown) => (error instanceof ApiError && error.status === 404 ? true : undefined),
      ),
    );
  } finally {
    await api.close();
  }
}
