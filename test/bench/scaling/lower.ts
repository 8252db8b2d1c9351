/** Makes three zones smaller, one after the other, through a webhook that tells the leaving pods. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Api, ApiError, eventually } from "../../controlplane/api.ts";
import type { StatefulSet } from "../../controlplane/fixtures.ts";
import { createAuthority } from "../../support/certificates.ts";
import { Ingesters } from "../../support/ingester.ts";
import { registerSizes, unregisterSizes } from "../../support/size-webhooks.ts";
import type { Contender, ContenderName } from "../contenders.ts";
import { restMs } from "../eviction/setting.ts";
import type { Size } from "../sizes.ts";
import { compare, type Row } from "../table.ts";
import {
  type Effort,
  measureEffort,
  runTrial,
  type Scene,
  type TestBed,
  type Trial,
  userAgent,
  withContender,
} from "../trial.ts";

export interface Lowered extends Effort {
  /** Time from the first request until the last pod is gone, and until the last change was allowed. */
  readonly tookMs: number;
  readonly allowedMs: number;
  /** How often a change was refused, with 429 or 400, and the first reason. */
  readonly refusals: number;
  readonly firstRefusal: string;
  /** Number of calls to pods. */
  readonly calls: number;
}

/** Number of pods by which each zone is made smaller. */
export const steps = 10;
export const retryAfterMs = 100;
const shutdownPath = "/ingester/prepare-shutdown";
const timeoutMs = 120_000;

export async function runLower(place: TestBed, name: ContenderName, size: Size): Promise<Trial<Lowered>> {
  const ingesters = await Ingesters.open({ shutdownPath });
  const ending = new AbortController();
  const labels = { "grafana.com/prepare-downscale": "true" };
  const annotations = {
    "grafana.com/prepare-downscale-http-path": shutdownPath.slice(1),
    "grafana.com/prepare-downscale-http-port": String(ingesters.port),
  };
  try {
    return await runTrial(place, name, size, (scene) => withPods(scene, ingesters, ending.signal), {
      labels,
      annotations,
    });
  } finally {
    ending.abort();
    await ingesters.close();
  }
}

/** Every pod answers. The contender, which is asked about sizes, finds the pods by their names. */
async function withPods(scene: Scene, ingesters: Ingesters, signal: AbortSignal): Promise<Lowered> {
  const { controlPlane, group, size } = scene;
  if (size.pods <= steps) throw new Error(`zones of ${size.pods} pods cannot be made smaller by ${steps}`);
  const api = await Api.open(controlPlane, { userAgent, connections: 4 });
  try {
    await ingesters.followPods(api, group.namespace, signal);
    const all = size.zones * size.pods;
    await eventually("every pod answers", 60_000, async () => (ingesters.lives.length === all ? true : undefined));
    const hostsFile = join(controlPlane.directory, `${group.namespace}.hosts`);
    await writeFile(hostsFile, `127.0.0.1 localhost\n${ingesters.hosts()}`);
    const authority = await createAuthority();
    const { cert, key } = await authority.issue();
    const [certFile, keyFile] = ["crt", "key"].map((end) => join(controlPlane.directory, `${group.namespace}.${end}`));
    if (certFile === undefined || keyFile === undefined) throw new Error("no files for the certificate");
    await Promise.all([writeFile(certFile, cert), writeFile(keyFile, key, { mode: 0o600 })]);
    const pods = { nodeOptions: ingesters.nodeOptions, hostsFile };
    return await withContender(scene, { pair: { certFile, keyFile }, restMs, pods }, async (contender) => {
      const port = Number(new URL(contender.reviewsUrl ?? "").port);
      await registerSizes(api, group.namespace, { port, ca: authority.cert });
      try {
        return await lowerAll(scene, contender, api, ingesters);
      } finally {
        await unregisterSizes(api, group.namespace);
      }
    });
  } finally {
    await api.close();
  }
}

async function lowerAll(scene: Scene, contender: Contender, api: Api, ingesters: Ingesters): Promise<Lowered> {
  const { group, size, controlPlane, signal } = scene;
  const refused: string[] = [];
  const target = size.pods - steps;
  const measured = await measureEffort(controlPlane, contender);
  const calls = ingesters.calls.length;
  const startedMs = performance.now();
  const deadlineMs = startedMs + timeoutMs;
  for (const name of group.statefulSets) {
    for (;;) {
      signal.throwIfAborted();
      const why = await lower(api, `${pathOf(group.namespace, name)}/scale`, target);
      if (why === undefined) break;
      refused.push(why);
      await contender.check();
      if (performance.now() > deadlineMs) throw new Error(`not lowered within ${timeoutMs / 1000} s: ${why}`);
      await delay(retryAfterMs, undefined, { signal });
    }
  }
  const allowedMs = performance.now() - startedMs;
  await eventually("every pod gone that leaves", timeoutMs, async () => {
    const sets = await Promise.all(
      group.statefulSets.map((name) => api.get<StatefulSet>(pathOf(group.namespace, name))),
    );
    return sets.every(({ spec, status }) => spec.replicas === target && status?.replicas === target) ? true : undefined;
  });
  const tookMs = performance.now() - startedMs;
  await delay(tailMs, undefined, { signal });
  refuseUntold(ingesters, group.statefulSets, size);
  const [firstRefusal = ""] = refused;
  const counts = { refusals: refused.length, firstRefusal, calls: ingesters.calls.length - calls };
  return { ...(await measured()), tookMs, allowedMs, ...counts };
}

/** Time after the last pod in which writes still belong to it. */
const tailMs = 6_000;

const pathOf = (namespace: string, name: string) => `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}`;

/** Undefined if the change was allowed; otherwise the reason. */
async function lower(api: Api, path: string, replicas: number): Promise<string | undefined> {
  try {
    await api.patch(path, { spec: { replicas } });
    return undefined;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 429 || error.status === 400)) return error.message;
    throw error;
  }
}

/** Both contenders must have done the same: each pod that left was told itself, and no other pod was. */
function refuseUntold({ calls }: Ingesters, statefulSets: readonly string[], { pods }: Size): void {
  const notified = new Set(
    calls.filter(({ method, status = 0 }) => method === "POST" && status < 300).map(({ pod }) => pod),
  );
  const leaving = statefulSets.flatMap((name) =>
    Array.from({ length: steps }, (_, index) => `${name}-${pods - 1 - index}`),
  );
  const untold = leaving.filter((pod) => !notified.has(pod));
  const others = [...notified].filter((pod) => !leaving.includes(pod));
  if (untold.length > 0) throw new Error(`left without having been told: ${untold.join(", ")}`);
  if (others.length > 0) throw new Error(`told that they leave, and they stay: ${others.join(", ")}`);
}

export function lowerInBrief({ figures, failure, load }: Trial<Lowered>): string {
  if (figures === undefined) return `failed: ${failure}`;
  const { tookMs, refusals, requests, calls, cpuSeconds } = figures;
  const what = `${(tookMs / 1000).toFixed(2)} s, ${refusals} refusals, ${requests} requests, ${calls} calls to pods`;
  return `${what}, CPU ${cpuSeconds.toFixed(3)} s (load ${load.toFixed(1)})`;
}

const rows: readonly Row<Lowered>[] = [
  { label: "time until the last pod is gone, s", value: ({ tookMs }) => tookMs / 1000, digits: 2 },
  { label: "time until the last zone is let through, s", value: ({ allowedMs }) => allowedMs / 1000, digits: 2 },
  { label: "refusals, asked again after 100 ms", value: ({ refusals }) => refusals, digits: 0 },
  { label: "API requests, Events included", value: ({ requests }) => requests, digits: 0 },
  { label: "calls to pods", value: ({ calls }) => calls, digits: 0 },
  { label: "CPU, seconds", value: ({ cpuSeconds }) => cpuSeconds, digits: 3 },
  { label: "resident memory, peak, MB", value: (figures) => figures.peakResidentBytes / 1_000_000, digits: 0 },
];

export function lowerTable(
  { zones, pods }: Size,
  contenders: readonly ContenderName[],
  trials: readonly Trial<Lowered>[],
): string {
  const title = `${zones} zones of ${pods} pods, each made smaller by ${steps}, with pods that are told`;
  return [title, ...compare(rows, contenders, trials)].join("\n");
}
