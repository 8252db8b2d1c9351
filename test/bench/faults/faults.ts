/** `npm run bench -- faults`: something breaks in the middle of a rollout. Measures what becomes of the rest. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Api, eventually } from "../../controlplane/api.ts";
import { writeKubeconfig } from "../../controlplane/configuration.ts";
import { changeTemplate, waitForGroupReady } from "../../controlplane/fixtures.ts";
import { type Benchmark, takeTurns } from "../benchmark.ts";
import { against, type ContenderName, tunedFlags } from "../contenders.ts";
import type { Fault, FaultOptions } from "../options.ts";
import { type Replacement, replacementInBrief, tailMs, watchReplacement } from "../replacement.ts";
import { isNew, newImage, restMs } from "../rollout.ts";
import { describeSize, limitMs, readyAfterMs, type Size } from "../sizes.ts";
import { seeded } from "../statistics.ts";
import { compare, type Row } from "../table.ts";
import type { ObservedPod } from "../tally.ts";
import { runTrial, type Scene, type TestBed, type Trial, userAgent, withContender } from "../trial.ts";
import { FaultyProxy } from "./faulty-proxy.ts";

export interface FaultFigures extends Replacement {
  /** Requests that were answered with 429. */
  readonly refused: number;
}

export type FaultTrial = { readonly part: Fault } & Trial<FaultFigures>;

/** Time of the fault after the first StatefulSet is patched, and its duration. */
const afterMs = 3_000;
const stillMs = 10_000;
const refuseMs = 5_000;

const descriptions: Readonly<Record<Fault, string>> = {
  none: "Nothing breaks",
  "never-ready": "A pod of the last zone never becomes Ready; until all others are",
  "still-watch": `After ${afterMs / 1000} s the open watches of StatefulSets stand still for ${stillMs / 1000} s`,
  "too-many-requests": `After ${afterMs / 1000} s each request is answered with 429 for ${refuseMs / 1000} s`,
};

export function faultBenchmark(options: FaultOptions): Benchmark<FaultTrial> {
  const random = seeded(options.seed);
  return {
    name: "faults",
    method: method(options),
    settings: { restMs, tailMs, tunedFlags, afterMs, stillMs, refuseMs },
    turns: options.parts.flatMap((part) =>
      takeTurns(
        { ...options, what: part, random },
        () => faultContenders(options),
        (place, contender, size) => runFault(part, place, contender, size),
      ),
    ),
    inBrief: replacementInBrief,
    tables: (trials) =>
      options.sizes.flatMap((size) =>
        options.parts.map((part) => faultTable(part, size, faultContenders(options), trials)),
      ),
  };
}

export function faultContenders({
  contenders,
  against: other,
}: Pick<FaultOptions, "contenders" | "against">): readonly ContenderName[] {
  return [...(contenders ?? ["sluice", "peer-tuned"]), ...(other === undefined ? [] : [against])];
}

async function runFault(part: Fault, place: TestBed, name: ContenderName, size: Size): Promise<FaultTrial> {
  const { url, token, caFile } = place.controlPlane;
  const proxy = await FaultyProxy.start({ url, token, ca: await readFile(caFile, "utf8") });
  const folder = await mkdtemp(join(tmpdir(), "sluice-faults-"));
  const kubeconfig = join(folder, "kubeconfig");
  try {
    await writeKubeconfig(kubeconfig, proxy.url, token, caFile);
    const through = { url: proxy.url, kubeconfig };
    const trial = await runTrial(place, name, size, (scene) =>
      withContender(scene, { pair: undefined, restMs, through }, async (contender) => {
        const broken = part === "never-ready" ? brokenPodOf(scene) : undefined;
        const replacement = await watchReplacement(
          scene,
          contender,
          isNew,
          async () => {
            await changeTemplate(scene.controlPlane, scene.group, newImage);
            await breakIn(part, scene, proxy);
          },
          broken,
        );
        if (broken !== undefined) await heal(scene, broken.name);
        return { ...replacement, refused: proxy.refused };
      }),
    );
    return { part, ...trial };
  } finally {
    await proxy.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** A pod in the middle of the last zone: by then all other zones are done, whatever happens to it. */
function brokenPodOf({ group, size }: Scene): { zone: string; name: string } {
  const statefulSet = group.statefulSets.at(-1) ?? "";
  return { zone: statefulSet.slice(group.name.length + 1), name: `${statefulSet}-${Math.floor(size.pods / 2)}` };
}

async function breakIn(part: Fault, scene: Scene, proxy: FaultyProxy): Promise<void> {
  if (part === "never-ready") return breakNewPod(scene, brokenPodOf(scene).name);
  await delay(afterMs, undefined, { signal: scene.signal });
  if (part === "too-many-requests") proxy.refuse(refuseMs);
  if (part === "still-watch" && proxy.standStill("statefulsets", stillMs) === 0)
    throw new Error("no watch of StatefulSets was open, that could have stood still");
}

/** Breaks the pod as soon as it exists with the new template, well before it would be Ready. */
async function breakNewPod({ controlPlane, group, size, signal }: Scene, name: string): Promise<void> {
  const api = await Api.open(controlPlane, { userAgent, connections: 1 });
  try {
    await eventually(`${name} on the new template`, 10 * limitMs(size), async () => {
      signal.throwIfAborted();
      const path = `/api/v1/namespaces/${group.namespace}/pods/${name}`;
      const pod = await api.get<ObservedPod>(path).catch(() => undefined);
      return pod !== undefined && isNew(pod) ? true : undefined;
    });
    await controlPlane.kubelet.breakPod(group.namespace, name);
  } finally {
    await api.close();
  }
}

/** Mends the pod. The group must then become whole. */
async function heal({ controlPlane, group }: Scene, name: string): Promise<void> {
  await controlPlane.kubelet.healPod(group.namespace, name);
  await waitForGroupReady(controlPlane, group, { timeoutMs: 60_000, everyMs: 500 });
}

export function faultTable(
  part: Fault,
  size: Size,
  contenders: readonly ContenderName[],
  trials: readonly FaultTrial[],
): string {
  const own = trials.filter((trial) => trial.part === part && trial.size === size.label);
  const rows: Row<FaultFigures>[] = [
    { label: "time / limit", value: ({ timeOverLimit }) => timeOverLimit, digits: 2 },
    { label: "pods of a zone down at once, worst", value: ({ mostDown }) => mostDown, digits: 0, atMost: size.budget },
    { label: "zones down at once, worst", value: ({ mostZonesDown }) => mostZonesDown, digits: 0, atMost: 1 },
    { label: "API requests per pod, Events included", value: ({ requestsPerPod }) => requestsPerPod, digits: 2 },
    { label: "watches opened meanwhile", value: ({ watches }) => watches, digits: 0 },
    { label: "requests answered with 429", value: ({ refused }) => refused, digits: 0 },
  ];
  return [`${descriptions[part]}; ${describeSize(size)}`, ...compare(rows, contenders, own)].join("\n");
}

function method({ seed, gogc }: FaultOptions): string {
  return [
    `Pods are Ready ${readyAfterMs / 1000} s after creation. The contenders take turns in random order (seed ${seed}) on one control plane, whose`,
    `processes run with GOGC=${gogc}. Each asks the API server through a proxy of its own, over plain HTTP, which breaks what is to break.`,
    "Time runs from before the first StatefulSet is patched until the last pod is Ready on the new revision; the limit is that of a",
    "rollout in which nothing breaks.",
    `peer-tuned: rollout-operator ${tunedFlags.join(" ")}; peer-shipped: with its defaults.`,
  ].join("\n");
}
