/** The demo from its beginning to its end: the cluster, Sluice in its own process, a rollout, a broken pod, lost events. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Journal } from "./journal.ts";
import type { DemoOptions } from "./options.ts";
import { isUp, zoneOf } from "./referee.ts";
import { Sluice } from "./sluice.ts";
import { buildStage, isNew, newImage, replacedAfterMs, type Stage } from "./stage.ts";
import { Verdicts } from "./verdicts.ts";

/** A rollout that takes longer than this has failed. */
export const limitMs = 60_000;
const tickMs = 100;
/** How long Sluice may take to start. */
const startWithinMs = 20_000;
/** A broken pod is healed once the ledger says why the rollout waits, but not sooner and not later than this. */
const brokenForMs = { least: 3_000, most: 10_000 };

export type Phase = "starting" | "standing" | "rolling" | "broken" | "healed" | "rolled";
export type Outcome = "rolled" | "late" | "broken promise" | "sluice ended" | "sluice not ready" | "interrupted";

export interface RunOptions extends DemoOptions {
  readonly signal: AbortSignal;
  readonly journal: Journal;
  /** Called about ten times a second. */
  readonly show: (play: Play) => void;
  /** For tests: called in the middle of the rollout, to do what nobody should. */
  readonly meddle?: (play: Play) => void;
}

/** The demo as it stands. */
export class Play {
  readonly options: RunOptions;
  readonly journal: Journal;
  readonly stage: Stage;
  readonly sluice: Sluice;
  readonly verdicts: Verdicts;
  phase: Phase = "starting";
  outcome: Outcome | undefined;
  /** By the journal's clock: when the rollout began and ended, and when a pod was broken and healed. */
  startedMs: number | undefined;
  endedMs: number | undefined;
  brokenMs: number | undefined;
  healedMs: number | undefined;
  /** What Sluice said of the broken pod. */
  reason: string | undefined;

  constructor(options: RunOptions, stage: Stage, sluice: Sluice) {
    this.options = options;
    this.journal = options.journal;
    this.stage = stage;
    this.sluice = sluice;
    this.verdicts = new Verdicts(stage.world, options.journal);
  }

  get total(): number {
    return this.options.pods * this.stage.group.statefulSets.length;
  }

  /** How many pods run the wanted revision and are ready. */
  get done(): number {
    const { items } = this.stage.world.store.list("pods");
    return items.filter((pod) => isUp(pod) && isNew(pod)).length;
  }

  /** How long the rollout has taken so far, in milliseconds. */
  get tookMs(): number {
    return this.startedMs === undefined ? 0 : (this.endedMs ?? this.journal.nowMs) - this.startedMs;
  }

  /** How long the pod was broken, so far. */
  get heldMs(): number {
    return this.brokenMs === undefined ? 0 : (this.healedMs ?? this.journal.nowMs) - this.brokenMs;
  }

  /** A guess at how long the rollout will go on, in milliseconds: the pods that are left, as fast as those before. */
  get leftMs(): number {
    const { done, total } = this;
    const paceMs = Math.max(this.fastestMs / total, done === 0 ? 0 : (this.tookMs - this.heldMs) / done);
    return this.endedMs === undefined ? (total - done) * paceMs : 0;
  }

  /** The time that nobody can beat: all pods, as many at once as the budget allows, each for as long as it takes. */
  get fastestMs(): number {
    const { statefulSets } = this.stage.group;
    return statefulSets.length * Math.ceil(this.options.pods / this.stage.budget) * replacedAfterMs;
  }
}

/** Plays the demo. Resolves when Sluice's process and the cluster are gone. */
export async function runDemo(options: RunOptions): Promise<Play> {
  const stage = await buildStage(options, options.journal);
  const sluice = await Sluice.start({ url: stage.served.url, namespace: stage.group.namespace });
  const play = new Play(options, stage, sluice);
  play.journal.add("", "the group stands, an hour old; Sluice starts");
  const ended = new AbortController();
  const story = tellStory(play, ended.signal);
  story.catch(() => undefined);
  try {
    while (play.outcome === undefined) {
      for (const line of sluice.newLines()) play.verdicts.hearLog(line);
      play.outcome = outcomeOf(play);
      options.show(play);
      await Promise.race([sleep(tickMs), story]);
    }
  } finally {
    ended.abort();
    await story.catch(() => undefined);
    await sluice.stop();
    await stage.close();
  }
  return play;
}

function outcomeOf({ stage, sluice, options, phase, startedMs, journal }: Play): Outcome | undefined {
  if (options.signal.aborted) return "interrupted";
  if (stage.referee.violations.length > 0) return "broken promise";
  if (sluice.end() !== undefined) return "sluice ended";
  if (phase === "rolled") return "rolled";
  if (startedMs === undefined) return journal.nowMs > startWithinMs ? "sluice not ready" : undefined;
  return journal.nowMs - startedMs > limitMs ? "late" : undefined;
}

/** What users and fate do, each when its time has come. */
async function tellStory(play: Play, signal: AbortSignal): Promise<void> {
  const { stage, sluice, journal, total, verdicts } = play;
  const { world, group } = stage;
  const until = async (isSo: () => boolean | Promise<boolean>): Promise<void> => {
    while (!(await isSo())) await sleep(20, undefined, { signal });
  };
  await until(() => sluice.isReady());
  play.phase = "standing";
  journal.add("", "Sluice is ready");
  await sleep(1_000, undefined, { signal });
  journal.add("", "a user gives every zone a new image");
  play.phase = "rolling";
  play.startedMs = journal.nowMs;
  for (const statefulSet of group.statefulSets) world.changeTemplate(statefulSet, newImage);
  // In the middle, and while another zone is being rolled: then pods are down in two zones.
  await until(() => play.done >= total / 2 && (stage.referee.takenNow > 0 || play.done === total));
  play.options.meddle?.(play);
  await breakAndHeal(play, until);
  await until(() => play.done === total);
  play.endedMs = journal.nowMs;
  journal.add("", "every pod runs the new image");
  await until(() => verdicts.now?.guard === "done");
  play.phase = "rolled";
}

/** A pod that has just been rolled stops being ready, for no fault of the rollout, and works again later. */
async function breakAndHeal(
  play: Play,
  until: (isSo: () => boolean | Promise<boolean>) => Promise<void>,
): Promise<void> {
  const { stage, journal, verdicts } = play;
  const { kubelet, store } = stage.world;
  const name = `${stage.group.statefulSets[0]?.name}-${Math.floor(stage.random() * play.options.pods)}`;
  const key = { namespace: stage.group.namespace, name };
  const zone = zoneOf(name);
  journal.add(zone, `${name} breaks`);
  kubelet.breakPod(key);
  play.phase = "broken";
  play.brokenMs = journal.nowMs;
  await until(() => {
    const { recorded, recordedAtMs } = verdicts;
    const isSince = recorded !== undefined && recordedAtMs > (play.brokenMs ?? 0);
    if (isSince && recorded.sentence.includes(zone)) play.reason = `${recorded.guard}: ${recorded.sentence}`;
    const isLongEnough = play.heldMs >= brokenForMs.least && play.reason !== undefined;
    return isLongEnough || play.heldMs >= brokenForMs.most || store.find("pods", key) === undefined;
  });
  journal.add(zone, `${name} heals`);
  if (store.find("pods", key) !== undefined) kubelet.healPod(key);
  play.phase = "healed";
  play.healedMs = journal.nowMs;
}
