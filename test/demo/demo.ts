/** Runs the demo from beginning to end: the cluster, Sluice in its own process, and the story. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Outcome, Play, type RunOptions } from "./play.ts";
import { Sluice } from "./sluice.ts";
import { buildStage } from "./stage.ts";
import { narrate } from "./story.ts";

/** A rollout that takes longer than this has failed. */
export const limitMs = 90_000;
const tickMs = 100;
/** Time within which Sluice must start. */
const startWithinMs = 30_000;

/** Plays the demo. Resolves when Sluice's process and the cluster have ended. */
export async function runDemo(options: RunOptions): Promise<Play> {
  const stage = await buildStage(options, options.journal);
  const sluice = await Sluice.start({
    url: stage.served.url,
    namespace: stage.group.namespace,
    nodeOptions: stage.ingesters.nodeOptions,
    hasPage: options.page,
  });
  const play = new Play(options, stage, sluice);
  play.journal.add("", "the group stands, an hour old; Sluice starts, and makes itself a certificate");
  const ended = new AbortController();
  const story = narrate(play, ended.signal);
  story.catch(() => undefined);
  try {
    while (play.outcome === undefined) {
      for (const line of sluice.newLines()) play.note(line);
      play.outcome = outcomeOf(play);
      options.show(play);
      await Promise.race([sleep(tickMs), story]);
    }
    if (play.outcome !== "interrupted") await options.linger?.(play);
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
