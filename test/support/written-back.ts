/** A tool that applies plain manifests of webhooks again and again, beside a drain and constant reviews. */
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../controlplane/api.ts";
import { drainNodes } from "./drain.ts";
import { evict } from "./drain-webhook.ts";
import type { Scene } from "./scene.ts";

export interface Tool {
  /** Time for which the plain manifest is applied every 10 s. */
  readonly seconds: number;
  apply(): Promise<void>;
  /** True if every process asks for the key on this path, false if none does, undefined if only some do. */
  isAsked(): Promise<boolean | undefined>;
}

export interface WrittenBack {
  /** Number of rehearsed evictions meanwhile. */
  readonly asked: number;
  /** The API server's messages for rehearsals that were neither allowed nor answered with 429. */
  readonly refused: readonly string[];
  /** How often kubectl ended the drain with an error. */
  readonly gaveUp: number;
  /** Number of applications after which the key was not asked for. */
  readonly plain: number;
  /** Time from the last application until the key was asked for again, in seconds. */
  readonly seconds: number;
}

/** Drains a node of the first zone. Throws if the key is not asked for within 45 s of the last application. */
export async function writeBack(scene: Scene, { seconds, apply, isAsked }: Tool): Promise<WrittenBack> {
  const { api, controlPlane, group } = scene;
  const { namespace, statefulSets } = group;
  const waitUntilAsked = (wanted: boolean, timeoutMs: number) =>
    eventually(wanted ? "the key asked for" : "the key not asked for", timeoutMs, async () =>
      (await isAsked()) === wanted ? true : undefined,
    );
  await waitUntilAsked(true, 60_000);
  const rehearse = () => evict(api, namespace, `${statefulSets[1]}-0`, "in the body");
  await eventually("an eviction allowed", 60_000, async () => ((await rehearse()).code === 201 ? true : undefined));
  const refused: string[] = [];
  let [isAsking, asked, plain] = [true, 0, 0];
  const asking = (async () => {
    for (; isAsking; await delay(20)) {
      const { code, message } = await rehearse();
      asked++;
      // A drain that gets 429 asks again: any other answer ends it.
      if (code !== 201 && code !== 429) refused.push(`${code} ${message}`);
    }
  })();
  const [zone = ""] = statefulSets.map((name) => name.slice(group.name.length + 1));
  const [node = ""] = await scene.nodesOf(zone);
  const draining = drainNodes(controlPlane, api, [node], seconds * 1_000 + 60_000);
  for (const untilMs = performance.now() + seconds * 1_000; performance.now() < untilMs; await delay(10_000)) {
    await apply();
    if ((await isAsked()) !== true) plain++;
  }
  await apply();
  const lastMs = performance.now();
  await waitUntilAsked(false, 5_000);
  await waitUntilAsked(true, 45_000);
  const tookMs = performance.now() - lastMs;
  const { gaveUp } = await draining;
  isAsking = false;
  await asking;
  return { asked, refused, gaveUp, plain, seconds: tookMs / 1_000 };
}
