/** `npm run bench`. Exit codes: 0 when every trial ended, 1 when one did not, 2 for wrong flags, 130 for Ctrl-C. */
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { promisify } from "node:util";
import { type ControlPlane, ensureAssets, ensurePeer, startControlPlane } from "../controlplane/controlplane.ts";
import { restMs, tunedFlags } from "./contenders.ts";
import { describeMachine, introduce, loadBefore, type Machine } from "./machine.ts";
import { type BenchOptions, contendersOf, help, readOptions } from "./options.ts";
import { readyAfterMs } from "./sizes.ts";
import { seeded, shuffled } from "./statistics.ts";
import { tableOf } from "./table.ts";
import { runTrial, type Trial, tailMs } from "./trial.ts";

const say = (line: string): void => console.error(line);

/** What the figures rest on: the same for every contender. */
function method({ seed, gogc, nodeFlags }: BenchOptions): string {
  return [
    `Pods are Ready ${readyAfterMs / 1000} s after creation. The contenders take turns in random order (seed ${seed}) on one control plane, whose`,
    `processes run with GOGC=${gogc}; each trial has a namespace, a group and a contender's process of its own. A contender rests for`,
    `${restMs / 1000} s after it is ready (Sluice: after it made the group's ledger, for it permits nothing in the first 10 s of one).`,
    "Time runs from before the first StatefulSet is patched until the last pod is Ready on the new revision, as a watch of the bench",
    `sees it; requests (audit log), bytes (read calls of the contender, encrypted) and CPU until ${tailMs / 1000} s later.`,
    `peer-tuned: rollout-operator ${tunedFlags.join(" ")}; peer-shipped: with its defaults.`,
    ...(nodeFlags.length > 0 ? [`Sluice's node has more flags than in "npm start": ${nodeFlags.join(" ")}.`] : []),
  ].join("\n");
}

async function runTrials(options: BenchOptions, controlPlane: ControlPlane, signal: AbortSignal): Promise<Trial[]> {
  const needsPeer = options.sizes.some((size) => contendersOf(options, size).some((name) => name !== "sluice"));
  const peer = needsPeer ? await ensurePeer(say) : undefined;
  if (peer !== undefined) {
    // The peer watches this resource and waits until it exists.
    await promisify(execFile)(controlPlane.kubectl, ["--kubeconfig", controlPlane.kubeconfig, "apply", "-f", peer.crd]);
  }
  const { profiles } = options;
  const profiling = profiles === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${resolve(profiles)}`];
  const nodeFlags = [...options.nodeFlags, ...profiling];
  const random = seeded(options.seed);
  const trials: Trial[] = [];
  for (const size of options.sizes) {
    for (let round = 1; round <= options.repeat; round++) {
      for (const contender of shuffled(contendersOf(options, size), random)) {
        const number = trials.length + 1;
        const parts = { controlPlane, peerBinary: peer?.binary, contender, size, number, nodeFlags, signal };
        const trial = await runTrial(parts);
        trials.push(trial);
        say(`${size.label} ${contender} ${round}/${options.repeat}: ${inBrief(trial)}`);
      }
    }
  }
  return trials;
}

function inBrief({ figures, failure, load }: Trial): string {
  if (figures === undefined) return `failed: ${failure}`;
  const { timeOverLimit, mostDown, mostZonesDown, requestsPerPod, cpuSeconds } = figures;
  const times = `time/limit ${timeOverLimit.toFixed(2)}, ${mostDown} down, ${mostZonesDown} zones`;
  return `${times}, ${requestsPerPod.toFixed(2)} requests per pod, CPU ${cpuSeconds.toFixed(2)} s (load ${load.toFixed(1)})`;
}

async function bench(options: BenchOptions, signal: AbortSignal): Promise<number> {
  const load = loadBefore();
  const assets = await ensureAssets(say);
  signal.throwIfAborted();
  const controlPlane = await startWithGogc(options.gogc, assets, signal);
  let machine: Machine;
  let trials: Trial[];
  try {
    machine = await describeMachine(controlPlane, load);
    console.log(`${introduce(machine)}\n${method(options)}\n`);
    const lost = controlPlane.lost.then(({ explanation }) => {
      throw new Error(explanation);
    });
    trials = await Promise.race([runTrials(options, controlPlane, signal), lost, rejected(signal)]);
  } finally {
    await controlPlane.stop();
  }
  for (const size of options.sizes) console.log(`${tableOf(size, contendersOf(options, size), trials)}\n`);
  const file = await writeResults(options, machine, trials);
  console.log(`Median (least–most). "!" marks a promise that was broken. All figures: ${file}`);
  return trials.every(({ figures }) => figures !== undefined) ? 0 : 1;
}

/** The children inherit the environment; the contenders are not to. */
async function startWithGogc(gogc: number, assets: string, signal: AbortSignal): Promise<ControlPlane> {
  const before = process.env.GOGC;
  process.env.GOGC = String(gogc);
  try {
    return await startControlPlane({ assets, signal, log: say, podsReadyAfterMs: readyAfterMs });
  } finally {
    if (before === undefined) delete process.env.GOGC;
    else process.env.GOGC = before;
  }
}

function rejected(signal: AbortSignal): Promise<never> {
  return new Promise((_, fail) => {
    if (signal.aborted) fail(signal.reason);
    signal.addEventListener("abort", () => fail(signal.reason), { once: true });
  });
}

async function writeResults(options: BenchOptions, machine: Machine, trials: readonly Trial[]): Promise<string> {
  const at = new Date().toISOString();
  const name = `rollout-${at.slice(0, 19).replaceAll(":", "")}.json`;
  const file = resolve(options.json ?? resolve(import.meta.dirname, "../../bench-results", name));
  await mkdir(dirname(file), { recursive: true });
  const { sizes, repeat, seed, gogc, nodeFlags } = options;
  const settings = { sizes, repeat, seed, gogc, nodeFlags, readyAfterMs, restMs, tailMs, tunedFlags };
  await writeFile(file, `${JSON.stringify({ at, machine, settings, trials }, undefined, 2)}\n`);
  return file;
}

async function main(): Promise<number> {
  const reading = readOptions(process.argv.slice(2));
  if (reading.kind === "help") {
    console.log(help);
    return 0;
  }
  if (reading.kind === "wrong") {
    for (const mistake of reading.mistakes) say(`bench: ${mistake}`);
    return 2;
  }
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      // The second one does not wait: the leash ends the children.
      if (interrupted.signal.aborted) process.exit(130);
      interrupted.abort(new Error(`${name}: ending`));
    });
  }
  try {
    return await bench(reading.options, interrupted.signal);
  } catch (error) {
    say(`bench: ${(error as Error).message}`);
    return interrupted.signal.aborted ? 130 : 1;
  }
}

process.exit(await main());
