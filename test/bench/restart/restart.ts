/**
 * Measures a rolling restart in place against the deletion of one pod after the other: three real OpenSearch nodes with 10,000
 * documents, a writer and a reader, on a real API server, with the bundle of the image and the same played kubelet.
 */
import { loadavg } from "node:os";
import { resolve } from "node:path";
import { eventually } from "../../controlplane/api.ts";
import { findAssets } from "../../controlplane/controlplane.ts";
import { slowMs } from "../../opensearch/nodes.ts";
import { asDatabase, Pods, type PodsOptions } from "../../opensearch/pods.ts";
import { openSearchForTests } from "../../opensearch/program.ts";
import { Traffic } from "../../opensearch/traffic.ts";
import { packagesForTests } from "../../support/packages.ts";
import { rejected, report, writeFigures } from "../benchmark.ts";
import { describeMachine, introduce, loadBefore, type Machine } from "../machine.ts";
import type { SharedOptions } from "../options.ts";
import { buildShipped, type Shipped } from "../shipped.ts";
import { seeded, shuffled } from "../statistics.ts";
import {
  brokenPromises,
  mostLonger,
  type RestartFigures,
  type RestartTrial,
  restartTable,
  type StartDelay,
  startDelays,
  type Way,
  ways,
} from "./figures.ts";

const repository = resolve(import.meta.dirname, "../../..");
const documents = 10_000;
/** The default of a process manager. */
const drainSeconds = "5";

/** Three pods, and their clients. */
interface RestartBed {
  readonly pods: Pods;
  readonly traffic: Traffic;
}

/** Resolves to the exit code. Throws if this machine has no control plane or no OpenSearch. */
export async function runRestartBench(options: SharedOptions, signal: AbortSignal): Promise<number> {
  const load = loadBefore();
  const [home, packages, assets] = [await openSearchForTests(), await packagesForTests(), await findAssets()];
  if (home === undefined || packages === undefined || assets === undefined)
    throw new Error("it needs a control plane and an OpenSearch: npm test -- control");
  report("building sluice");
  const shipped = await buildShipped(repository, options.nodeFlags);
  const trials: RestartTrial[] = [];
  const lost: string[] = [];
  let [machine, names]: [Machine?, (readonly string[])?] = [];
  try {
    const random = seeded(options.seed);
    for (let round = 1; round <= options.repeat; round++) {
      const cases = startDelays.flatMap((startDelay) => ways.map((way) => ({ way, startDelay })));
      const turns = shuffled(cases, random);
      const label = `${round}/${options.repeat}`;
      const measuring = withPods({ home, packages, annotations: asDatabase }, shipped, async (bed) => {
        names = bed.pods.names;
        machine ??= await describeMachine({ assets }, load, undefined);
        await Promise.race([runRound(bed, turns, trials, label), rejected(signal)]);
      });
      // The trials of the other rounds stand all the same.
      await measuring.catch((error: Error) => lost.push(`round ${label}: ${error.message}`));
      signal.throwIfAborted();
    }
  } finally {
    await shipped.remove();
  }
  const failures = trials.flatMap(({ way, startDelay, failure }) =>
    failure === undefined ? [] : [`${way}, ${startDelay} s: ${failure}`],
  );
  const wrong = [...lost, ...failures, ...brokenPromises(trials)];
  const { repeat, seed, nodeFlags } = options;
  const settings = { repeat, seed, nodeFlags, documents, drainSeconds, mostLonger };
  const file = await writeFigures("restart", options.json, { machine, settings, trials, lost });
  const text = [machine && introduce(machine), restartTable(trials, names ?? []), ...wrong];
  console.log(`${text.filter(Boolean).join("\n\n")}\n\nMedian (least–most). All figures: ${file}`);
  return wrong.length > 0 ? 1 : 0;
}

/** Pods, their clients, and the function beside them, which all end with the work. */
async function withPods(
  options: Omit<PodsOptions, "zones" | "drainSeconds">,
  { start: program, flags, environment: settings }: Shipped,
  work: (bed: RestartBed) => Promise<void>,
): Promise<void> {
  const pods = await Pods.open({ ...options, zones: 3, drainSeconds });
  let traffic: Traffic | undefined;
  try {
    traffic = await Traffic.start(pods, documents);
    await pods.startFunction({ program, flags, settings });
    // The first restart makes the ledger, which permits nothing for ten seconds.
    await pods.mark(pods.names[0] ?? "", "schedule");
    await pods.restarted(pods.names);
    await work({ pods, traffic });
  } finally {
    await traffic?.stop();
    await pods.close();
  }
}

async function runRound(
  bed: RestartBed,
  turns: readonly { readonly way: Way; readonly startDelay: StartDelay }[],
  trials: RestartTrial[],
  label: string,
): Promise<void> {
  for (const [at, { way, startDelay }] of turns.entries()) {
    const [load = 0] = loadavg();
    const about = { way, startDelay, load };
    const [figures, failure] = await runTrial(bed, way, startDelay, at).then(
      (found) => [found, undefined] as const,
      (error: Error) => [undefined, error.message] as const,
    );
    trials.push({ ...about, figures, failure });
    const seconds = (ms: number) => (ms / 1_000).toFixed(1);
    const brief = figures && `${seconds(figures.wholeMs)} s, down ${figures.downMs.map(seconds).join(", ")} s`;
    report(`${way}, ${startDelay} s ${label}: ${brief ?? `failed: ${failure}`}, load ${load.toFixed(1)}`);
  }
}

/** Each process starts once with a new file. Throws if one did not. */
async function runTrial(
  { pods, traffic }: RestartBed,
  way: Way,
  delay: StartDelay,
  at: number,
): Promise<RestartFigures> {
  const { names, nodes } = pods;
  const [first = ""] = names;
  await nodes.green(first);
  await pods.mount([`node.attr.x: trial-${at}`]);
  const [begun, errors] = [(await pods.journal()).length, traffic.readErrors.length];
  const startedMs = performance.now();
  if (way === "in-place") {
    await Promise.all(names.map((name) => pods.mark(name, "schedule-rolling")));
    await pods.restarted(names);
  } else {
    for (const name of names) {
      await pods.replace(name, delay * 1_000);
      await eventually(`${name} is Ready`, slowMs, async () => pods.ready.has(name) || undefined);
      await nodes.green(name);
    }
  }
  await nodes.green(first);
  const wholeMs = performance.now() - startedMs;
  const journal = (await pods.journal()).slice(begun);
  for (const name of names) {
    const own = journal.filter((line) => line.endsWith(` ${name}`)).map((line) => line.split(" ")[0]);
    if (own.join() !== "stopping,stop,start") throw new Error(`the journal of ${name} has ${own.join()}`);
  }
  return { wholeMs, downMs: await pods.downMs(), readErrors: traffic.readErrors.length - errors };
}
