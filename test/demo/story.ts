/** What users, machines and chance do in the demo, each at its time. */
import { setTimeout as sleep } from "node:timers/promises";
import { newImage } from "../support/served-group.ts";
import { Downscale } from "./downscale.ts";
import type { Play } from "./play.ts";
import { zoneOf } from "./referee.ts";
import { isTrusted, registerWebhook } from "./registration.ts";
import { Storm } from "./storm.ts";

/** A broken pod is healed once the ledger says why the rollout waits, but within these bounds. */
const brokenForMs = { least: 3_000, most: 10_000 };

type Until = (isSo: () => boolean | Promise<boolean>) => Promise<void>;

/**
 * Plays the whole story. Resolves when every pod is rolled, every node is drained and a zone is smaller. Rejects when the
 * signal is aborted.
 */
export async function narrate(play: Play, signal: AbortSignal): Promise<void> {
  const { stage, journal, total, verdicts } = play;
  const until: Until = async (isSo) => {
    while (!(await isSo())) await sleep(20, undefined, { signal });
  };
  const registered = register(play, until);
  registered.catch(() => undefined);
  await until(() => verdicts.now !== undefined);
  play.phase = "standing";
  await sleep(1_000, undefined, { signal });
  journal.add("", "a user gives every zone a new image");
  play.phase = "rolling";
  play.startedMs = journal.nowMs;
  for (const statefulSet of stage.group.statefulSets) stage.world.changeTemplate(statefulSet, newImage);
  await registered;
  // In the middle, and while another zone is being rolled, so that pods are down in two zones.
  await until(() => play.done >= total / 2 && (stage.referee.takenNow > 0 || play.done === total));
  play.options.meddle?.(play);
  await breakAndHeal(play, until);
  play.phase = "storm";
  play.storm = new Storm({ stage, journal, signal });
  await play.storm.rage();
  play.phase = "rolling";
  await until(() => play.done === total);
  play.endedMs = journal.nowMs;
  journal.add("", "every pod runs the new image");
  await until(() => verdicts.now?.guard === "done");
  play.phase = "downscale";
  play.downscale = new Downscale({ stage, journal, pods: play.options.pods, signal });
  await play.downscale.play();
  play.phase = "rolled";
}

/** Sends evictions to Sluice as soon as it can answer. It needs some seconds to generate the keys of its certificate. */
async function register({ stage: { world, group }, sluice, journal }: Play, until: Until): Promise<void> {
  await until(() => sluice.isReady());
  await until(() => sluice.tlsPort !== undefined);
  registerWebhook(world, group.namespace, sluice.tlsPort as number);
  await until(() => isTrusted(world));
  journal.add("", "Sluice is ready, and is asked about every eviction and size");
}

/** A pod that has just been rolled stops being ready, through no fault of the rollout, and works again later. */
async function breakAndHeal(play: Play, until: Until): Promise<void> {
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
    const isLongEnough = play.brokenForMs >= brokenForMs.least && play.reason !== undefined;
    return isLongEnough || play.brokenForMs >= brokenForMs.most || store.find("pods", key) === undefined;
  });
  journal.add(zone, `${name} heals`);
  if (store.find("pods", key) !== undefined) kubelet.healPod(key);
  play.phase = "healed";
  play.healedMs = journal.nowMs;
}
