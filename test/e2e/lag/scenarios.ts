/** The acts of users while watches lag. Each takes its numbers from a seed, and leaves the group in its final state. */
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../../controlplane/api.ts";
import type { Random } from "../../fake-cluster/random.ts";
import { causes, neverStarting, play } from "./causes.ts";
import type { Stage } from "./stage.ts";

export interface Scenario {
  readonly name: string;
  readonly description: string;
  /** Resolves when users have stopped, some time after `forMs`. */
  play(stage: Stage, forMs: number): Promise<void>;
}

function between(random: Random, leastMs: number, mostMs: number): number {
  return Math.round(leastMs + random() * (mostMs - leastMs));
}

function chosen<T>(random: Random, things: readonly T[]): T | undefined {
  return things[Math.floor(random() * things.length)];
}

/** Templates that change until it is over, some in the middle of a rollout: of every zone, or of one at a time. */
async function rollAgain(
  stage: Stage,
  random: Random,
  pauseMs: readonly [number, number],
  over: AbortSignal,
  whose: "every zone" | "one zone" = "every zone",
) {
  const { statefulSets } = stage.group;
  for (let version = 2; !over.aborted; version++) {
    // Sometimes back to a template that some pods still run.
    const image = `app:${random() < 0.2 ? Math.max(1, version - 2) : version}`;
    await stage.changeImage(image, whose === "every zone" ? statefulSets : [chosen(random, statefulSets) ?? ""]);
    await rest(between(random, ...pauseMs), over);
  }
}

/** A worker of a pool: takes a pod, tries until it goes or cannot, and takes the next. */
async function evictAgain(
  stage: Stage,
  random: Random,
  over: AbortSignal,
  likes: (zone: string) => boolean = () => true,
) {
  while (!over.aborted) {
    const standing = stage.witness.pods.filter(({ ready, terminating }) => ready && !terminating);
    const liked = standing.filter(({ zone }) => likes(zone));
    const pod = chosen(random, liked.length > 0 ? liked : standing)?.name;
    for (let tries = 0; pod !== undefined && tries < 30 && !over.aborted; tries++) {
      const code = await stage.evict(pod);
      if (code === 201 && (liked.length > 0 || random() < 0.5)) stage.pauses.now();
      if (code !== 429) break;
      await rest(between(random, 100, 500), over);
    }
    await rest(between(random, 0, 1_000), over);
  }
}

/** Waits for `ms`, or until `over` aborts. */
function rest(ms: number, over: AbortSignal): Promise<void> {
  return delay(ms, undefined, { signal: over }).catch(() => {});
}

/** Runs all of `work` at once until `forMs` have passed. */
async function together(forMs: number, ...work: ((over: AbortSignal) => Promise<void>)[]): Promise<void> {
  const over = AbortSignal.timeout(forMs);
  await Promise.all(work.map((one) => one(over)));
}

const rollouts: Scenario = {
  name: "rollouts",
  description: "templates that change in the middle of a rollout",
  play: (stage, forMs) => together(forMs, (over) => rollAgain(stage, stage.randomFor(1), [500, 12_000], over)),
};

const drains: Scenario = {
  name: "drains",
  description: "evictions by three workers beside a rollout",
  play: (stage, forMs) =>
    together(
      forMs,
      (over) => rollAgain(stage, stage.randomFor(1), [8_000, 20_000], over),
      ...[2, 3, 4].map((actor) => (over: AbortSignal) => evictAgain(stage, stage.randomFor(actor), over)),
    ),
};

/** A zone that exists for a while, and is away for a while. */
async function joinAndLeave(stage: Stage, zone: string, random: Random, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    await stage.createZone(zone);
    await rest(between(random, 6_000, 10_000), over);
    await stage.deleteZone(zone, "Background");
    await rest(between(random, 500, 4_000), over);
  }
}

const zones: Scenario = {
  name: "zones",
  description: "zones that join and leave every ten seconds, beside rollouts and evictions",
  play: async (stage, forMs) => {
    const passing = ["d", "e"].map((letter) => `${stage.group.name}-zone-${letter}`);
    await together(
      forMs,
      // Short rollouts, because no eviction is allowed while a long rollout takes every place.
      (over) => rollAgain(stage, stage.randomFor(1), [4_000, 12_000], over, "one zone"),
      ...passing.map(
        (zone, index) => (over: AbortSignal) => joinAndLeave(stage, zone, stage.randomFor(2 + index), over),
      ),
      ...[4, 5].map(
        (actor) => (over: AbortSignal) =>
          evictAgain(stage, stage.randomFor(actor), over, (zone) => passing.includes(zone)),
      ),
      ...[6, 7].map((actor) => (over: AbortSignal) => evictAgain(stage, stage.randomFor(actor), over)),
    );
  },
};

/** Deletes a zone, sometimes just after a pod of it was taken, and creates it again. */
async function recreate(stage: Stage, random: Random, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    const going = stage.witness.pods.find(({ terminating, orphaned }) => terminating && !orphaned)?.zone;
    if (going === undefined && random() < 0.99) {
      await rest(20, over);
      continue;
    }
    const zone = going ?? chosen(random, stage.group.statefulSets) ?? "";
    await stage.deleteZone(zone, random() < 0.7 ? "Orphan" : "Background");
    await delay(between(random, 100, 10_000));
    await stage.createZone(zone);
    await rest(between(random, 1_000, 5_000), over);
  }
}

const recreation: Scenario = {
  name: "recreation",
  description: "StatefulSets deleted with or without their pods and made again, beside rollouts and evictions",
  play: (stage, forMs) =>
    together(
      forMs,
      (over) => rollAgain(stage, stage.randomFor(1), [5_000, 15_000], over),
      (over) => recreate(stage, stage.randomFor(2), over),
      (over) => evictAgain(stage, stage.randomFor(3), over),
    ),
};

/** How long the pods of a revision that never starts may stay after its rollback: two minutes, and the lag of a watch. */
const repairedWithinMs = 240_000;

const rollbacks: Scenario = {
  name: "rollbacks",
  description: `a revision that never starts, and is rolled back while a pod of another zone is down: ${causes.map(({ name }) => name).join("; ")}`,
  async play(stage, forMs) {
    const random = stage.randomFor(1);
    const cause = causes[stage.seed % causes.length] ?? causes[0];
    if (cause === undefined) throw new Error("there are no causes");
    const known = new Set(stage.witness.pods.map(({ podRevision }) => podRevision ?? ""));
    const isNew = ({ podRevision }: { readonly podRevision: string | undefined }) => !known.has(podRevision ?? "");
    const { statefulSets } = stage.group;
    const before = new Map(statefulSets.map((zone) => [zone, stage.template(zone)]));
    const ended = new AbortController();
    const playing = play(stage, cause, known, ended.signal);
    stage.log(`a revision that never starts: ${cause.name}`);
    for (const [zone, template] of before) await stage.changeTemplate(zone, neverStarting(template, cause));
    await eventually("a pod that never starts", 90_000, async () => stage.witness.pods.find(isNew));
    await delay(between(random, 0, forMs / 2));
    const bad = new Set(stage.witness.pods.filter(isNew).map(({ zone }) => zone));
    const hurt = stage.witness.pods.find(({ zone, ready, terminating }) => !bad.has(zone) && ready && !terminating);
    if (hurt === undefined) throw new Error("no pod of another zone is ready");
    stage.log(`${hurt.name} breaks`);
    await stage.controlPlane.kubelet.breakPod(stage.group.namespace, hurt.name);
    await delay(between(random, 0, forMs / 2));
    stage.log("it is rolled back");
    for (const [zone, template] of before) await stage.changeTemplate(zone, template);
    stage.afterwards = async () => {
      try {
        await eventually("the pods that never started replaced", repairedWithinMs, async () =>
          stage.witness.pods.some(isNew) ? undefined : true,
        );
      } finally {
        ended.abort();
        await playing;
      }
      stage.log(`${hurt.name} is well again`);
      if (stage.witness.pods.some(({ uid }) => uid === hurt.uid))
        await stage.controlPlane.kubelet.healPod(stage.group.namespace, hurt.name);
    };
  },
};

export const scenarios: readonly Scenario[] = [rollouts, drains, zones, recreation, rollbacks];
