/**
 * Scaling of pods that are told before they leave, on a real control plane: beside an autoscaler and rollouts, and when the
 * process that tells them dies. The two scenes wait much, so they are played side by side.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Api, eventually } from "../controlplane/api.ts";
import { changeTemplate, createGroup, type StatefulSet, waitForGroupReady } from "../controlplane/fixtures.ts";
import { follow } from "../controlplane/follow.ts";
import { type Attempt, isOurs, scaleOnce, type Write, writesOf, writesWithin } from "../support/autoscaler.ts";
import { addNodes, type Drained, drainNodes, runKubectl } from "../support/drain.ts";
import { type EvictionAnswer, evict, registerWebhook } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import type { IngesterCall } from "../support/ingester.ts";
import {
  claimsOf,
  type NotifiedScene,
  setNotifiedScene,
  shutdownPath,
  waitForNoClaim,
} from "../support/notified-scene.ts";
import { playIn, skipWithoutControlPlane } from "../support/scene.ts";

interface Diagnostics {
  diagnostic(text: string): void;
}

/** Rule R20. */
const undoAfterMs = 90_000;

describe("pods that are told before they leave", { skip: await skipWithoutControlPlane(), concurrency: 2 }, () => {
  let stage: EvictionStage;

  before(async () => {
    const resources = ["statefulsets", "statefulsets/scale", "statefulsets/status"];
    stage = await startEvictionStage({ auditAnswersOf: [{ group: "apps", resources }] });
  });

  after(() => stage?.stop());

  test("200 updates of a scale in a row, rollouts beside them: Sluice never writes the StatefulSet, and causes no conflict", async (context) => {
    const play = await Autoscaled.set(stage);
    await playIn(play.notified.scene, scaled, async () => {
      const rolling = play.rollOthers();
      const attempts: Attempt[] = [];
      // One of four updates comes in the middle of the consequences of the last one.
      while (attempts.length < 200) attempts.push(await play.scale(attempts.length % 4 !== 0));
      const rollouts = await rolling.end();
      const isBeside = ({ atMs }: Attempt) => rollouts.some(({ fromMs, toMs }) => atMs >= fromMs && atMs <= toMs);
      const writes = await play.writes();
      const seconds = rollouts.map(({ fromMs, toMs }) => ((toMs - fromMs) / 1_000).toFixed(1));
      context.diagnostic(`rollouts of ${2 * scaled.pods} pods took ${seconds.join(", ")} s`);
      context.diagnostic(describeAttempts("all", attempts));
      context.diagnostic(describeAttempts(`beside ${rollouts.length} rollouts`, attempts.filter(isBeside)));
      context.diagnostic(`written: ${JSON.stringify(countBy(writes, ({ by, resource }) => `${resource} by ${by}`))}`);
      assertNoneIsOurs(attempts, writes);
      assert.deepEqual(writes.filter(isOurs), [], "Sluice never writes a StatefulSet that is scaled");
      for (const { code, message } of attempts.filter((one) => one.code !== 200 && one.code !== 409))
        assert.ok(
          code === 429 && /denied the request: downscale of statefulsets\//.test(message),
          `${code} ${message}`,
        );
      const accepted = attempts.filter(({ code }) => code === 200);
      assert.ok(accepted.filter(({ from, to }) => to < from).length >= 5, "downscales were allowed");
      assert.ok(accepted.filter(isBeside).length >= 10, "sizes changed beside rollouts");
      assert.ok(attempts.filter(isBeside).length >= 60, "rollouts went on beside");
    });
  });

  test("the check detects a write of Sluice between the read and the write of a scale", async () => {
    const group = await createGroup(stage.controlPlane, { name: "watched", namespace: "watched", zones: 1, pods: 1 });
    await waitForGroupReady(stage.controlPlane, group);
    const statefulSet = { resource: "statefulsets", namespace: "watched", name: group.statefulSets[0] ?? "" };
    const path = `/apis/apps/v1/namespaces/watched/statefulsets/${statefulSet.name}`;
    const api = await Api.open(stage.controlPlane, { userAgent: "sluice-test-autoscaler" });
    const vandal = await Api.open(stage.controlPlane, { userAgent: "sluice/0.0.0 (vandal)" });
    const annotate = () =>
      vandal.patch(path, { metadata: { annotations: { "grafana.com/last-downscale": "2026-01-01T00:00:00Z" } } });
    try {
      const attempt = await scaleOnce(api, `${path}/scale`, () => 2, annotate);
      assert.equal(attempt.code, 409, attempt.message);
      const writes = await writesOf(stage.controlPlane.auditLog, statefulSet);
      assert.throws(() => assertNoneIsOurs([attempt], writes), /vandal/);
    } finally {
      await Promise.all([api.close(), vandal.close()]);
    }
  });

  test("killed between the POSTs and the answer: within 90 s and a sweep the pods are told to stay, and nothing takes them before", async (context) => {
    const play = await Killed.set(stage);
    const { scene, ingesters } = play.notified;
    await playIn(scene, killed, async () => {
      const killedMs = await play.killWhileNotifying();
      const drained = play.drain();
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      const probes = await play.probeUntilReleased(killedMs + undoAfterMs + sweepMs + 30_000);
      play.assertReleased(context, killedMs);
      play.assertBlocked(context, probes);
      const { stderr } = await drained;
      await scene.waitForRollout("app:2");
      context.diagnostic(`drained and rolled ${((Date.now() - killedMs) / 1000).toFixed(1)} s after the kill`);
      assert.match(stderr, new RegExp(`${shrinking}: 2-3 claimed for a scale-down`));
      await play.assertTaken(context);
      assert.deepEqual(ingesters.preparedPods(shutdownPath), []);
      await play.scaleAtLast();
    });
  });
});

const scaledZone = "scaled-zone-a";
const others = ["scaled-zone-b", "scaled-zone-c"];
const [fewest, most] = [3, 12];
const scaled = { pods: fewest, readyAfterMs: 200 };

class Autoscaled {
  readonly notified: NotifiedScene;
  readonly #stage: EvictionStage;
  readonly #autoscaler: Api;
  /** Revisions of the StatefulSet, as a watch reported them. */
  readonly #seen: Set<number>;
  #step = 1;

  private constructor(notified: NotifiedScene, stage: EvictionStage, autoscaler: Api, seen: Set<number>) {
    this.notified = notified;
    this.#stage = stage;
    this.#autoscaler = autoscaler;
    this.#seen = seen;
  }

  static async set(stage: EvictionStage): Promise<Autoscaled> {
    const notified = await setNotifiedScene(stage, "scaled", { ...scaled, asked: 2 });
    const autoscaler = await Api.open(stage.controlPlane, { userAgent: "sluice-test-autoscaler" });
    notified.scene.afterwards(() => autoscaler.close());
    return new Autoscaled(notified, stage, autoscaler, await followRevisions(notified.scene.api, notified.signal));
  }

  /**
   * One update, up to the most and then down again. `isAtRest`: once the last request is carried out, as for an autoscaler that
   * reconciles every 15 s.
   */
  async scale(isAtRest: boolean): Promise<Attempt> {
    const { scene } = this.notified;
    const from = await eventually("the zone at its size", 30_000, async () => {
      const { metadata, spec, status } = await scene.statefulSet(scaledZone);
      const isThere = status?.observedGeneration === metadata.generation && status?.replicas === spec.replicas;
      return !isAtRest || (isThere && (status?.availableReplicas ?? 0) === spec.replicas) ? spec.replicas : undefined;
    });
    if (from === most) this.#step = -1;
    if (from === fewest && this.#step === -1) {
      // Pods that are wanted again before the claim of their downscale has ended block the group for 90 s.
      await waitForNoClaim(scene);
      this.#step = 1;
    }
    const path = `${scene.statefulSetPath(scaledZone)}/scale`;
    const attempt = await scaleOnce(this.#autoscaler, path, (size) => size + this.#step);
    // "Try again later", and not at once.
    if (attempt.code === 429) await delay(250);
    return attempt;
  }

  /** Rolls the other zones again and again, with pauses of two seconds in which a downscale is allowed. */
  rollOthers(): { end(): Promise<readonly { fromMs: number; toMs: number }[]> } {
    const rollouts: { fromMs: number; toMs: number }[] = [];
    const ending = new AbortController();
    const { group } = this.notified.scene;
    const roll = async () => {
      for (let revision = 2; !ending.signal.aborted; revision++) {
        const fromMs = Date.now();
        await changeTemplate(this.#stage.controlPlane, group, `app:${revision}`, others);
        await waitForGroupReady(this.#stage.controlPlane, { ...group, statefulSets: others }, { updated: true });
        rollouts.push({ fromMs, toMs: Date.now() });
        await delay(2_000, undefined, { signal: ending.signal }).catch(() => {});
      }
      return rollouts;
    };
    const rolled = roll();
    // The caller of `end` gets the error. This handler keeps it from being an unhandled rejection before.
    rolled.catch(() => {});
    return {
      end: () => {
        ending.abort();
        return rolled;
      },
    };
  }

  /** All writes of the StatefulSet. Throws if the watch knows of a revision that none of them made. */
  async writes(): Promise<readonly Write[]> {
    const statefulSet = { resource: "statefulsets", namespace: "scaled", name: scaledZone };
    return eventually("every revision of the StatefulSet explained", 10_000, async () => {
      const writes = await writesOf(this.#stage.controlPlane.auditLog, statefulSet);
      const versions = new Set(writes.map(({ version }) => version));
      const unexplained = [...this.#seen].filter((version) => !versions.has(version));
      if (unexplained.length > 0) throw new Error(`no write in the audit log made the revisions ${unexplained}`);
      return writes;
    });
  }
}

async function followRevisions(api: Api, signal: AbortSignal): Promise<Set<number>> {
  const seen = new Set<number>();
  const follower = {
    path: `/apis/apps/v1/namespaces/scaled/statefulsets?fieldSelector=metadata.name=${scaledZone}`,
    known: new Set<string>(),
    seen: ({ metadata }: StatefulSet & { metadata: { uid: string; resourceVersion: string } }) => {
      seen.add(Number(metadata.resourceVersion));
    },
    gone: () => {},
  };
  await follow(api, follower, signal);
  return seen;
}

/** Sluice causes no conflict, and writes nothing between the read and the write of an attempt. */
function assertNoneIsOurs(attempts: readonly Attempt[], writes: readonly Write[]): void {
  for (const attempt of attempts) {
    const within = writesWithin(writes, attempt);
    const ours = within.filter(isOurs);
    assert.deepEqual(ours, [], `written by Sluice in the middle of ${JSON.stringify(attempt)}`);
    if (attempt.code !== 409) continue;
    assert.match(attempt.message, /the object has been modified/);
    assert.ok(within.length > 0, `a conflict, although no client wrote in between: ${JSON.stringify(attempt)}`);
  }
}

function describeAttempts(which: string, attempts: readonly Attempt[]): string {
  const direction = ({ from, to }: Attempt) => (to > from ? "up" : "down");
  return `${which}: ${attempts.length} updates, ${JSON.stringify(countBy(attempts, (one) => `${direction(one)} ${one.code}`))}`;
}

function countBy<T>(items: readonly T[], keyOf: (item: T) => string): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const key of items.map(keyOf)) counts[key] = (counts[key] ?? 0) + 1;
  return counts;
}

const shrinking = "told-zone-a";
/** The pods that would leave. */
const quick = `${shrinking}-3`;
const slow = `${shrinking}-2`;
const sweepMs = 10_000;
// A rollout or a drain could take the told pods, and one more: the claim keeps them, and no budget.
const killed = { pods: 4, maxUnavailable: 3, zoneBudget: { maxUnavailable: 3 }, nodesPerZone: 1 };

/** One attempt to evict a told pod. */
interface Probe extends EvictionAnswer {
  readonly pod: string;
  readonly atMs: number;
}

class Killed {
  readonly notified: NotifiedScene;
  readonly #stage: EvictionStage;

  private constructor(notified: NotifiedScene, stage: EvictionStage) {
    this.notified = notified;
    this.#stage = stage;
  }

  /** Two replicas, of which one is asked. */
  static async set(stage: EvictionStage): Promise<Killed> {
    const settings = { SWEEP_INTERVAL: `${sweepMs / 1000}s` };
    const notified = await setNotifiedScene(stage, "told", { ...killed, settings, asked: 1 });
    await registerWebhook(notified.scene.api, "told", "Mutating", {
      port: notified.proxy.port,
      ca: stage.certificate.ca,
    });
    return new Killed(notified, stage);
  }

  /** Resolves to the time of the kill: one pod has been told, the other one has its POST and does not answer yet. */
  async killWhileNotifying(): Promise<number> {
    const { scene, ingesters, proxy, servers } = this.notified;
    // It acts on its POST long after the process that sent it is gone.
    ingesters.behave(slow, { slowMs: 4_000 });
    const scaling = this.#scale();
    await eventually("the pods told", 20_000, async () => {
      const isNotified = ingesters.calls.some(({ pod, method }) => pod === quick && method === "POST");
      const isAsked = ingesters.arrivals.some(({ pod, method }) => pod === slow && method === "POST");
      return isNotified && isAsked ? true : undefined;
    });
    await servers[0].kill();
    const killedMs = Date.now();
    ingesters.behave(slow, "answer");
    proxy.remove(servers[0].tlsPort);
    proxy.add(servers[1].tlsPort);
    const { code, stderr } = await scaling;
    assert.equal(code, 1);
    assert.match(stderr, /failed calling webhook "prepare-downscale\./);
    assert.equal((await scene.statefulSet(shrinking)).spec.replicas, killed.pods);
    assert.match(await claimsOf(scene), /preparing/);
    await eventually("the slow pod prepared", 10_000, async () =>
      ingesters.preparedPods(shutdownPath).length === 2 ? true : undefined,
    );
    return killedMs;
  }

  #scale() {
    return runKubectl(this.#stage.controlPlane, "-n", "told", "scale", "statefulset", shrinking, "--replicas=2");
  }

  /** The zone of the told pods: each of its pods is to go. */
  async drain(): Promise<Drained> {
    const { scene } = this.notified;
    const leaving = await scene.nodesOf("zone-a");
    await addNodes(scene.api, scene.group, "zone-a", 1, leaving.length + 1);
    return drainNodes(this.#stage.controlPlane, scene.api, leaving, 240_000);
  }

  /** The DELETEs that pods have answered, the first of each. */
  releases(): readonly IngesterCall[] {
    const { calls } = this.notified.ingesters;
    return [quick, slow].flatMap((pod) => calls.find((call) => call.pod === pod && call.method === "DELETE") ?? []);
  }

  /** Tries to evict them all the time, until each has been told that it stays. */
  async probeUntilReleased(untilMs: number): Promise<readonly Probe[]> {
    const probes: Probe[] = [];
    while (Date.now() < untilMs && this.releases().length < 2) {
      for (const pod of [quick, slow]) {
        const atMs = Date.now();
        const isReleased = this.releases().some((one) => one.pod === pod);
        if (!isReleased) probes.push({ ...(await evict(this.notified.scene.api, "told", pod)), pod, atMs });
      }
      await delay(1_000);
    }
    return probes;
  }

  /** By the pods' own logs: when each was told that it stays. */
  assertReleased(context: Diagnostics, killedMs: number): void {
    const releases = this.releases();
    assert.deepEqual(releases.map(({ pod }) => pod).sort(), [slow, quick]);
    for (const { pod, atMs } of releases) {
      const afterMs = atMs - killedMs;
      context.diagnostic(`${pod} was released ${(afterMs / 1000).toFixed(1)} s after the kill`);
      assert.ok(afterMs <= undoAfterMs + sweepMs, `${pod} was released after ${afterMs} ms`);
      // Until then the API server may still allow the change.
      assert.ok(afterMs >= 60_000, `${pod} was released after ${afterMs} ms already`);
    }
  }

  /** Before its DELETE no pod was let go, and each refusal is one after which drains try again. */
  assertBlocked(context: Diagnostics, probes: readonly Probe[]): void {
    const releases = this.releases();
    const early = probes.filter(({ pod, atMs }) =>
      releases.some((release) => release.pod === pod && atMs + 1_000 < release.atMs),
    );
    context.diagnostic(`${early.length} evictions of them before, all refused: ${early[0]?.message}`);
    assert.ok(early.length >= 60, `only ${early.length} evictions were tried`);
    for (const { code, causes, message } of early) {
      assert.equal(code, 429, message);
      assert.deepEqual(causes, ["DisruptionBudget"]);
      assert.match(message, /claimed for a scale-down/);
    }
  }

  /** By the observer: a told pod was taken only after its own DELETE; and each of them was taken then. */
  async assertTaken(context: Diagnostics): Promise<void> {
    const { takings } = await this.notified.scene.observer.verdict();
    const releases = this.releases();
    for (const { pod, atMs } of releases) {
      const first = takings.find((taking) => taking.pod === pod);
      assert.ok(first !== undefined, `${pod} was never taken`);
      assert.ok(first.atMs >= atMs, `${pod} was taken ${atMs - first.atMs} ms before it was released`);
      context.diagnostic(`${pod} was taken ${first.atMs - atMs} ms after it was released`);
    }
    const firstMs = Math.min(...releases.map(({ atMs }) => atMs));
    const before = takings.filter(({ atMs }) => atMs < firstMs).map(({ pod }) => pod);
    context.diagnostic(`taken before: ${before}`);
    assert.ok(before.length > 0, "neither a rollout nor a drain was under way");
  }

  /** Evictions that were impossible before are carried out then. */
  async scaleAtLast(): Promise<void> {
    await eventually("the zone made smaller", 60_000, async () =>
      (await this.#scale()).code === 0 ? true : undefined,
    );
    assert.equal((await this.notified.scene.statefulSet(shrinking)).spec.replicas, 2);
  }
}
