/** `npm run bench -- drain`: the real kubectl drains a node that has all pods of one zone. */
import { Api, eventually } from "../../controlplane/api.ts";
import { createNode } from "../../controlplane/nodes.ts";
import { runKubectl } from "../../support/drain.ts";
import { type Benchmark, takeTurns } from "../benchmark.ts";
import { type ContenderName, tunedFlags } from "../contenders.ts";
import { restMs, type Setting, withSetting, withWebhook } from "../eviction/setting.ts";
import { type Observation, Observer } from "../observer.ts";
import type { SharedOptions } from "../options.ts";
import { limitMs, readyAfterMs, type Size } from "../sizes.ts";
import { seeded } from "../statistics.ts";
import { compare, type Row } from "../table.ts";
import { measureEffort, runTrial, type TestBed, type Trial, userAgent } from "../trial.ts";

export interface DrainFigures extends Observation {
  /** Time until kubectl has ended, and until the last pod is Ready again on another node. */
  readonly drainedMs: number;
  readonly readyMs: number;
  readonly drainedOverLimit: number;
  /** How often kubectl was told to retry. */
  readonly refusals: number;
  readonly requestsPerPod: number;
}

const drainTimeoutMs = 240_000;

export function drainBenchmark(options: SharedOptions): Benchmark<Trial<DrainFigures>> {
  return {
    name: "drain",
    method: method(options),
    settings: { restMs, tunedFlags },
    turns: takeTurns(
      { ...options, what: "drain", random: seeded(options.seed) },
      () => drainContenders(options),
      runDrain,
    ),
    inBrief,
    tables: (trials) => options.sizes.map((size) => drainTable(size, drainContenders(options), trials)),
  };
}

export function drainContenders({ contenders }: Pick<SharedOptions, "contenders">): readonly ContenderName[] {
  return contenders ?? ["sluice", "sluice-refusing", "peer-tuned"];
}

/** The limit for one zone: batch after batch, each for as long as a pod takes to be ready. */
export function drainLimitMs(size: Size): number {
  return limitMs({ ...size, zones: 1 });
}

/** How often kubectl reports that an eviction was refused and that it retries. */
export function countRefusals(stderr: string): number {
  return [...stderr.matchAll(/error when evicting .*\(will retry after/g)].length;
}

/** Each zone has a node for its pods, and the first zone has a second node, to which the drained pods go. */
async function runDrain(place: TestBed, name: ContenderName, size: Size): Promise<Trial<DrainFigures>> {
  const nodeLabels = { "test.sluice.dev/bench": String(place.number) };
  const zones = Array.from({ length: size.zones }, (_, index) => `zone-${String.fromCharCode(97 + index)}`);
  const nodes = zones.map((zone) => ({ name: nodeOf(place, zone), zone }));
  return withNodes(place, nodes, nodeLabels, () =>
    runTrial(
      place,
      name,
      size,
      (scene) => withSetting(scene, (setting) => withWebhook(setting, () => measureDrain(setting, nodeLabels))),
      { nodeLabels },
    ),
  );
}

function nodeOf({ number }: Pick<TestBed, "number">, zone: string): string {
  return `bench-${number}-${zone}`;
}

async function withNodes<T>(
  { controlPlane }: TestBed,
  nodes: readonly { readonly name: string; readonly zone: string }[],
  labels: Readonly<Record<string, string>>,
  work: () => Promise<T>,
): Promise<T> {
  const api = await Api.open(controlPlane, { userAgent, connections: 2 });
  try {
    for (const node of nodes) await createNode(api, { ...node, labels });
    return await work();
  } finally {
    const [first] = nodes;
    for (const { name } of nodes) await api.delete(`/api/v1/nodes/${name}`);
    if (first !== undefined) await api.delete(`/api/v1/nodes/${first.name}-new`).catch(() => undefined);
    await api.close();
  }
}

async function measureDrain(setting: Setting, labels: Readonly<Record<string, string>>): Promise<DrainFigures> {
  const { controlPlane, group, pods, size, running } = setting;
  const zone = pods[0]?.zone ?? "";
  const node = nodeOf(setting, zone);
  const api = await Api.open(controlPlane, { userAgent, connections: 1 });
  await createNode(api, { name: `${node}-new`, zone, labels });
  await api.close();
  const old = new Set(pods.filter((pod) => pod.zone === zone).map(({ uid }) => uid));
  const observer = await Observer.start(controlPlane, [group], ({ metadata }) => !old.has(metadata.uid));
  try {
    const measured = await measureEffort(controlPlane, running);
    const startedMs = performance.now();
    const output = await runKubectl(controlPlane, "drain", node, `--timeout=${drainTimeoutMs / 1_000}s`);
    const drainedMs = performance.now() - startedMs;
    if (output.code !== 0) throw new Error(`kubectl drain: ${output.stderr.slice(-2_000)}`);
    // Nothing happens in the other zones.
    const readyMs = await eventually(`the pods of ${zone} Ready`, 60_000, async () => {
      return observer.observation(startedMs).zones.find((one) => one.zone === zone)?.doneMs;
    });
    const { requests } = await measured();
    return {
      ...observer.observation(startedMs),
      ...{ drainedMs, readyMs, refusals: countRefusals(output.stderr) },
      drainedOverLimit: drainedMs / drainLimitMs(size),
      requestsPerPod: requests / size.pods,
    };
  } finally {
    await observer.close();
  }
}

function inBrief({ figures, failure, load }: Trial<DrainFigures>): string {
  if (figures === undefined) return `failed: ${failure}`;
  const { drainedMs, readyMs, refusals, mostDown } = figures;
  const seconds = (ms: number) => (ms / 1000).toFixed(1);
  const times = `drained in ${seconds(drainedMs)} s, ready in ${seconds(readyMs)} s, ${refusals} refusals`;
  return `${times}, ${mostDown} down (load ${load.toFixed(1)})`;
}

export function drainTable(
  size: Size,
  contenders: readonly ContenderName[],
  trials: readonly Trial<DrainFigures>[],
): string {
  const rows: Row<DrainFigures>[] = [
    { label: "kubectl drain, seconds", value: ({ drainedMs }) => drainedMs / 1000, digits: 1 },
    { label: "the same / limit", value: ({ drainedOverLimit }) => drainedOverLimit, digits: 2 },
    { label: "until all pods are Ready, seconds", value: ({ readyMs }) => readyMs / 1000, digits: 1 },
    { label: "refusals that kubectl saw", value: ({ refusals }) => refusals, digits: 0 },
    { label: "pods of a zone down at once, worst", value: ({ mostDown }) => mostDown, digits: 0, atMost: size.budget },
    { label: "zones down at once, worst", value: ({ mostZonesDown }) => mostZonesDown, digits: 0, atMost: 1 },
    { label: "API requests per pod, Events included", value: ({ requestsPerPod }) => requestsPerPod, digits: 2 },
  ];
  const own = trials.filter((trial) => trial.size === size.label);
  const title = `kubectl drain of the node with all ${size.pods} pods of a zone, budget ${size.budget}`;
  return [`${title}: the limit is ${drainLimitMs(size) / 1000} s`, ...compare(rows, contenders, own)].join("\n");
}

function method({ seed, gogc }: SharedOptions): string {
  return [
    `Pods are Ready ${readyAfterMs / 1000} s after creation. The contenders take turns in random order (seed ${seed}) on one control plane, whose`,
    `processes run with GOGC=${gogc}; each trial has a namespace, nodes, a group with a ZoneAwarePodDisruptionBudget, and a contender's`,
    `process of its own, which has rested for ${restMs / 1000} s, so that no ledger is new. The real kubectl drains the one node of the first`,
    "zone, whose pods go to a new one. It asks again 5 s after a refusal. Time is from its start until its end.",
    "sluice-refusing: EVICTION_WAIT=0. The webhook of Sluice is registered with 15 s, as its manifests have it; the peer's with 10 s.",
    `peer-tuned: rollout-operator ${tunedFlags.join(" ")}; peer-shipped: with its defaults.`,
  ].join("\n");
}
