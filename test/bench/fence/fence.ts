/**
 * Measures how long a fence takes in real time, with the defaults of function, agents and Kubernetes: three played machines, a
 * real control plane, the bundle of the image, and the shipped agents. Each round has a cluster of its own, because a node that
 * is fenced three times within an hour is treated in another way.
 */
import { resolve } from "node:path";
import { findAssets } from "../../controlplane/controlplane.ts";
import { FencingCluster, namespace } from "../../fencing/cluster.ts";
import { skipWithoutNamespaces } from "../../fencing/network.ts";
import { Pods } from "../../fencing/pods.ts";
import { defaultTimes } from "../../fencing/times.ts";
import { Server } from "../../support/server.ts";
import { rejected, report, writeFigures } from "../benchmark.ts";
import { describeMachine, introduce, loadBefore, type Machine } from "../machine.ts";
import type { FenceOptions } from "../options.ts";
import { buildShipped, type Shipped } from "../shipped.ts";
import { seeded } from "../statistics.ts";
import { type FenceCase, type FenceTrial, fenceCases, fenceRows } from "./figures.ts";
import { Moments } from "./moments.ts";
import { type SimulatedFence, simulateFence } from "./simulated.ts";
import { brokenBounds, fenceTable, nodesOfTrials, sizesTable, watchdogSeconds } from "./table.ts";
import { type FenceBed, podCollectorMs, runFenceTrial, watchedPaths } from "./trials.ts";

const repository = resolve(import.meta.dirname, "../../..");
const simulatedSizes = [nodesOfTrials, 10, 100, 1_000];

export interface FenceReport {
  readonly text: string;
  /** 0 if every trial ended and kept the bounds, else 1. */
  readonly exitCode: number;
}

/**
 * What the bench prints at the end, and its exit code.
 *
 * @param lost why rounds ended before their last trial, one message for each
 */
export function reportOf(
  trials: readonly FenceTrial[],
  sizes: readonly SimulatedFence[],
  lost: readonly string[] = [],
): FenceReport {
  const failures = trials.flatMap(({ fenceCase, node, failure }) =>
    failure === undefined ? [] : [`${fenceCase} of ${node} failed: ${failure}`],
  );
  const broken = brokenBounds(trials).map(
    ({ fenceCase, label, seconds, atMost }) => `${fenceCase}: ${label}: ${seconds.toFixed(1)} s, at most ${atMost} s`,
  );
  const wrong = [...lost, ...failures, ...broken];
  return { text: [fenceTable(trials), sizesTable(sizes), ...wrong].join("\n\n"), exitCode: wrong.length > 0 ? 1 : 0 };
}

/** Resolves to the exit code. Throws if this machine has no namespaces or no control plane. */
export async function runFenceBench(options: FenceOptions, signal: AbortSignal): Promise<number> {
  const load = loadBefore();
  const isMissing = (await findAssets()) === undefined || (await skipWithoutNamespaces());
  if (isMissing) throw new Error("it needs a control plane (npm run controlplane -- --print-assets) and namespaces");
  report("simulating other sizes, and building sluice");
  const sizes: SimulatedFence[] = [];
  for (const nodes of simulatedSizes) sizes.push(await simulateFence(nodes, watchdogSeconds));
  const shipped = await buildShipped(repository, options.nodeFlags);
  const trials: FenceTrial[] = [];
  const lost: string[] = [];
  let machine: Machine | undefined;
  try {
    const random = seeded(options.seed);
    for (let round = 1; round <= options.repeat; round++) {
      const label = `${round}/${options.repeat}`;
      // In this order no trial waits for new peers: the last one needs none, and the one before has one that was not reset.
      const cases = fenceCases.filter((fenceCase) => options.parts.includes(fenceCase));
      const turns = cases.map((fenceCase) => ({ fenceCase, restMs: random() * podCollectorMs }));
      const measuring = withCluster(shipped, async (bed) => {
        if (machine === undefined) {
          machine = await describeMachine(bed.cluster.controlPlane, load, undefined);
          console.log(`${introduce(machine)}\n`);
        }
        await Promise.race([runRound(bed, turns, trials, label), rejected(signal)]);
      });
      // The trials of the other rounds stand all the same.
      await measuring.catch((error: Error) => lost.push(`round ${label}: ${error.message}`));
      signal.throwIfAborted();
    }
  } finally {
    await shipped.remove();
  }
  const { text, exitCode } = reportOf(trials, sizes, lost);
  const { repeat, seed, nodeFlags } = options;
  const settings = { nodes: nodesOfTrials, watchdogSeconds, repeat, seed, nodeFlags, bounds: fenceRows };
  const file = await writeFigures("fence", options.json, { machine, settings, trials, sizes, lost });
  console.log(`${text}\n\nMedian (least–most). "!" marks a bound that was broken. All figures: ${file}`);
  return exitCode;
}

/** A cluster and the function beside it, which both end with the work. */
async function withCluster(shipped: Shipped, work: (bed: FenceBed) => Promise<void>): Promise<void> {
  const cluster = await FencingCluster.start(nodesOfTrials, {}, defaultTimes);
  let [server, moments]: [Server?, Moments?] = [];
  try {
    const { kubeconfig } = cluster.controlPlane;
    const settings = { ...shipped.environment, FUNCTION: "fence-node", FENCE_NAMESPACE: namespace };
    const { start: program, flags } = shipped;
    server = await Server.start({ kubeconfig, namespace, settings, program, flags });
    moments = await Moments.start(cluster.controlPlane, watchedPaths);
    await work({ cluster, pods: new Pods(cluster), moments });
  } finally {
    await moments?.stop();
    await server?.stop();
    await cluster.stop();
  }
}

/** One trial of each case, each on a node of its own. */
async function runRound(
  bed: FenceBed,
  turns: readonly { readonly fenceCase: FenceCase; readonly restMs: number }[],
  trials: FenceTrial[],
  label: string,
): Promise<void> {
  for (const [at, { fenceCase, restMs }] of turns.entries()) {
    const machine = bed.cluster.machine(`node-${at + 1}`);
    const trial = await runFenceTrial(bed, fenceCase, machine, at + 1, restMs);
    trials.push(trial);
    report(`${fenceCase} ${label}: ${inBrief(trial)}`);
    if (trial.failure !== undefined) report(bed.cluster.logs);
  }
}

function inBrief({ figures, failure, load }: FenceTrial): string {
  if (figures === undefined) return `failed: ${failure}`;
  const stretches = fenceRows.flatMap(({ label, value }) => {
    const ms = value(figures);
    return ms === undefined ? [] : [`${(ms / 1_000).toFixed(1)} s ${label}`];
  });
  return [...stretches, `load ${load.toFixed(1)}`].join(", ");
}
