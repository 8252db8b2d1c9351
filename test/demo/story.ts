/** What users, machines and fate do in the demo, each when its time has come. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Play } from "./demo.ts";
import { zoneOf } from "./referee.ts";
import { isTrusted, registerWebhook } from "./registration.ts";
import { newImage } from "./stage.ts";
import { Storm } from "./storm.ts";

/** A broken pod is healed once the ledger says why the rollout waits, but not sooner and not later than this. */
const brokenForMs = { least: 3_000, most: 10_000 };

type Until = (isSo: () => boolean | Promise<boolean>) => Promise<void>;

/** Tells all of it. Resolves when every pod is rolled and every node drained; rejects when the signal is given. */
export async function tellStory(play: Play, signal: AbortSignal): Promise<void> {
  const { stage, sluice, journal, total, verdicts } = play;
  const { world, group } = stage;
  const until: Until = async (isSo) => {
    while (!(await isSo())) await sleep(20, undefined, { signal });
  };
  await until(() => sluice.isReady());
  play.phase = "standing";
  journal.add("", "Sluice is ready");
  await until(() => sluice.tlsPort !== undefined);
  registerWebhook(world, group.namespace, sluice.tlsPort as number);
  await sleep(1_000, undefined, { signal });
  journal.add("", "a user gives every zone a new image");
  play.phase = "rolling";
  play.startedMs = journal.nowMs;
  for (const statefulSet of group.statefulSets) world.changeTemplate(statefulSet, newImage);
  // In the middle, and while another zone is being rolled: then pods are down in two zones.
  await until(() => play.done >= total / 2 && (stage.referee.takenNow > 0 || play.done === total));
  play.options.meddle?.(play);
  await breakAndHeal(play, until);
  await until(() => isTrusted(world));
  play.phase = "storm";
  play.storm = new Storm({ stage, journal, signal });
  await play.storm.rage();
  play.phase = "rolling";
  await until(() => play.done === total);
  play.endedMs = journal.nowMs;
  journal.add("", "every pod runs the new image");
  await until(() => verdicts.now?.guard === "done");
  play.phase = "rolled";
}

/** A pod that has just been rolled stops being ready, for no fault of the rollout, and works again later. */
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
    const isLongEnough = play.heldMs >= brokenForMs.least && play.reason !== undefined;
    return isLongEnough || play.heldMs >= brokenForMs.most || store.find("pods", key) === undefined;
  });
  journal.add(zone, `${name} heals`);
  if (store.find("pods", key) !== undefined) kubelet.healPod(key);
  play.phase = "healed";
  play.healedMs = journal.nowMs;
}
