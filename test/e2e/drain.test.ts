import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../controlplane/api.ts";
import { waitForGroupReady } from "../controlplane/fixtures.ts";
import { addNodes, type Drained, drainNodes } from "../support/drain.ts";
import { TcpProxy } from "../support/drain-proxy.ts";
import { guardEvictions, type Presented, registerWebhook, webhookName } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import type { Verdict } from "../support/history.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";

/** kubectl's output about a refusal: it tries again, and its user reads how many pods are missing, and where. */
function refusals({ stderr }: Drained, namespace: string, where: string): string[] {
  const lines = stderr.split("\n").filter((line) => line.includes(`webhook "${webhookName(namespace)}" denied`));
  const message = new RegExp(
    `^error when evicting pods/"[^"]+" -n "${namespace}" \\(will retry after 5s\\): admission webhook .+ denied the request: .*\\d+ pods? .*${where}`,
  );
  return lines.filter((line) => message.test(line));
}

/** No eviction waits for its turn, so that kubectl gets the reason. */
const atOnce = { EVICTION_WAIT: "0" };

/** Two servers behind a proxy, one of which is killed and started again every two seconds. */
class Replicas {
  readonly #scene: Scene;
  readonly #settings: Presented["settings"];
  readonly #proxy: TcpProxy;
  readonly #servers: Server[] = [];
  kills = 0;

  constructor(scene: Scene, { settings }: Presented, proxy: TcpProxy) {
    this.#scene = scene;
    this.#settings = settings;
    this.#proxy = proxy;
  }

  /** Resolves when it is ready, and gets reviews from then on. */
  async start(): Promise<void> {
    const server = await this.#scene.serve(this.#settings);
    await server.ready();
    this.#proxy.add(server.tlsPort);
    this.#servers.push(server);
  }

  /**
   * Kills one after the other until `signal` is aborted: the one that is answering a review, or else, two seconds after the
   * last kill, the older one. A replacement is started, and ready, before the next kill.
   */
  async killInTurn(signal: AbortSignal): Promise<void> {
    let lastMs = performance.now();
    while (!signal.aborted) {
      const untilMs = Math.max(500, Math.round(lastMs + 2_000 - performance.now()));
      const asked = await this.#proxy.nextAsked(AbortSignal.any([signal, AbortSignal.timeout(untilMs)])).catch(() => 0);
      // A review takes some 20 ms: some are interrupted before their reservation is written, and some after.
      await delay(Math.random() * 20);
      const victim = this.#servers.find(({ tlsPort }) => tlsPort === asked) ?? this.#servers[0];
      if (signal.aborted || victim === undefined) return;
      lastMs = performance.now();
      this.kills++;
      this.#servers.splice(this.#servers.indexOf(victim), 1);
      this.#proxy.remove(victim.tlsPort);
      await victim.kill();
      await this.start();
    }
  }
}

describe("kubectl drain on a real control plane", { skip: await skipWithoutControlPlane(), concurrency: 4 }, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  /** As in an upgrade: each zone gets a new node, and all of its old ones are drained. */
  async function drainZones(scene: Scene, zones: readonly string[], timeoutMs = 90_000): Promise<Drained> {
    const leaving = await scene.nodesOf(...zones);
    for (const zone of zones) await addNodes(scene.api, scene.group, zone, 1, leaving.length + 1);
    const drained = await drainNodes(stage.controlPlane, scene.api, leaving, timeoutMs);
    await waitForGroupReady(stage.controlPlane, scene.group);
    return drained;
  }

  /** Every pod of the zones was evicted, and no other pod was taken. */
  function assertEvicted({ takings }: Verdict, scene: Scene, zones: readonly string[]): void {
    const { name, pods } = scene.group;
    const wanted = zones.flatMap((zone) => Array.from({ length: pods }, (_, index) => `${name}-${zone}-${index}`));
    assert.deepEqual([...new Set(takings.map(({ pod }) => pod))].sort(), wanted);
    assert.ok(takings.every(({ evicted }) => evicted));
  }

  test("a drain of all nodes of two zones ends within the budget, and never takes two zones down", async (context) => {
    const options = { pods: 5, maxUnavailable: 2, nodesPerZone: 2, zoneBudget: { maxUnavailable: 2 } };
    await play(stage.controlPlane, "drained", options, async (scene) => {
      await guardEvictions(scene, stage.certificate);
      const startedMs = performance.now();
      const drained = await drainZones(scene, ["zone-a", "zone-b"]);
      const refused = refusals(drained, "drained", "drained-zone-[ab]").length;
      context.diagnostic(
        `drained in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s, refused ${refused} times`,
      );
      assert.equal(drained.gaveUp, 0, drained.stderr);
      assertEvicted(await scene.observer.verdict(), scene, ["zone-a", "zone-b"]);
    });
  });

  test("with two replicas, one of which is killed every two seconds, each eviction ends within two minutes and keeps each promise", async (context) => {
    const options = { pods: 6, maxUnavailable: 2, nodesPerZone: 2, zoneBudget: { maxUnavailable: 2 } };
    await play(stage.controlPlane, "cut-off", options, async (scene) => {
      const proxy = await TcpProxy.start();
      scene.afterwards(() => proxy.close());
      const replicas = new Replicas(scene, stage.certificate, proxy);
      await Promise.all([replicas.start(), replicas.start()]);
      await registerWebhook(scene.api, "cut-off", "Mutating", { port: proxy.port, ca: stage.certificate.ca });
      // A server that has just started permits nothing under a recent ledger (rule R4), and here none lives for long.
      await eventually("the ledger older than any server's doubt", 90_000, async () => {
        const ledger = await scene.api.get<{ metadata: { creationTimestamp: string } }>(scene.ledgerPath);
        return Date.now() - Date.parse(ledger.metadata.creationTimestamp) > 43_000 ? true : undefined;
      });
      const over = new AbortController();
      const startedMs = performance.now();
      const draining = drainZones(scene, ["zone-a", "zone-b"], 120_000).finally(() => over.abort());
      const [drained] = await Promise.all([draining, replicas.killInTurn(over.signal)]);
      const tookMs = performance.now() - startedMs;
      const { kills } = replicas;
      context.diagnostic(
        `drained in ${(tookMs / 1_000).toFixed(1)} s; ${kills} kills; ${drained.attempts} drains of 4 nodes`,
      );
      assert.ok(kills >= Math.floor(tookMs / 5_000), `only ${kills} were killed`);
      assertEvicted(await scene.observer.verdict(), scene, ["zone-a", "zone-b"]);
    });
  });

  test("the validating webhook of rollout-operator's users also serves a drain", async () => {
    const options = { pods: 3, nodesPerZone: 1, zoneBudget: { maxUnavailable: 1 } };
    await play(stage.controlPlane, "as-before", options, async (scene) => {
      await guardEvictions(scene, stage.certificate, { kind: "Validating", settings: atOnce });
      const drained = await drainZones(scene, ["zone-a"]);
      assert.equal(drained.gaveUp, 0, drained.stderr);
      assert.ok(refusals(drained, "as-before", "as-before-zone-a").length > 0, drained.stderr);
      assertEvicted(await scene.observer.verdict(), scene, ["zone-a"]);
    });
  });

  test("with partitions two zones are down at once, but never more of a partition than its budget", async () => {
    const zoneBudget = { maxUnavailable: 1, podNamePartitionRegex: "parted-zone-[a-z]-([0-9]+)" };
    await play(stage.controlPlane, "parted", { pods: 4, nodesPerZone: 1, zoneBudget }, async (scene) => {
      await guardEvictions(scene, stage.certificate, { settings: atOnce });
      const drained = await drainZones(scene, ["zone-a", "zone-b"]);
      assert.ok(refusals(drained, "parted", "in partition [0-3]").length > 0, drained.stderr);
      const verdict = await scene.observer.verdict();
      assertEvicted(verdict, scene, ["zone-a", "zone-b"]);
      assert.deepEqual(Object.values(verdict.mostDown), [1, 1, 1, 1]);
    });
  });
});
