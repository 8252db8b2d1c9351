/** Sluice asks real RabbitMQ nodes before one of them goes: in a rollout, and at evictions on the real API server. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { evict } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { Observer } from "../support/observer.ts";
import { packagesForTests } from "../support/packages.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";
import { Broker, nameOf, queue, seconds, size } from "./broker.ts";
import { answered, askedSet, guard } from "./guarded.ts";
import { setMember } from "./queues.ts";
import { Sampler } from "./sampler.ts";
import { underLoad } from "./under-load.ts";

const packages = await packagesForTests();
const skip = packages === undefined || (await skipWithoutControlPlane());
const namespace = "asked";
const all = [0, 1, 2];
/** Sluice's message. */
const critical = /says no: without this node these would lose their majority: queue 'orders' in vhost '\/'/;

suite("Sluice before real RabbitMQ nodes on the real API server", { skip }, () => {
  let stage: EvictionStage;
  let broker: Broker;
  let server: Server;
  let observer: Observer;

  before(async () => {
    if (packages === undefined) return;
    stage = await startEvictionStage();
    broker = await Broker.open(packages, stage.controlPlane, { namespace });
    server = await guard(broker, stage);
    await broker.createSet(askedSet(broker));
    await answered(broker, 0, { code: 201, message: /^$/ });
    observer = await Observer.start(stage.controlPlane, namespace);
  });

  after(async () => {
    const log = server?.log.slice(-10).map((line) => JSON.stringify(line));
    const end = await server?.stop();
    await observer?.close();
    await broker?.close();
    await stage?.stop();
    if (server !== undefined) assert.equal(end?.summary, "exit code 0", log?.join("\n"));
  });

  /** Asserts that pods which go meanwhile pass their gates, and that two pods are never down. Resolves to their ordinals. */
  async function oneAtATime(work: () => Promise<void>): Promise<number[]> {
    const before = broker.pods.endings.length;
    await work();
    const endings = broker.pods.endings.slice(before);
    for (const { gate, isOrderly } of endings) assert.deepEqual([gate?.outcome, isOrderly], ["passed", true]);
    const { violations, mostDown } = await observer.verdict();
    assert.deepEqual([violations, mostDown], [[], { rabbitmq: 1 }]);
    return endings.map(({ pod }) => Number(pod.at(-1))).sort();
  }

  async function ledgerShows(): Promise<{ readonly guard: string; readonly sentence: string } | undefined> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/sluice-rabbitmq`;
    const { metadata } = await broker.api.get<{ metadata: { annotations: Record<string, string> } }>(path);
    return JSON.parse(metadata.annotations["sluice.dev/verdicts"] ?? "{}")["advance-zone-rollout"];
  }

  /** Waits until every StatefulSet reports that its rollout is done. */
  async function rolledOut(): Promise<void> {
    await broker.allReady();
    await eventually("the rollout is recorded", 60_000, async () => {
      const { status } = await broker.api.get<{ status: Record<string, string> }>(broker.setPath);
      return status.currentRevision === status.updateRevision ? true : undefined;
    });
  }

  /** Asserts that the node still runs in its pod: no function has begun to take it. */
  async function stands(ordinal: number, uid: string): Promise<void> {
    const pod = await broker.pod(ordinal);
    assert.deepEqual([pod.uid, pod.deletionTimestamp], [uid, undefined]);
    assert.ok(broker.nodes.isRunning(ordinal));
    assert.equal(broker.pods.gateOf(nameOf(ordinal)), undefined);
  }

  /** Asserts that a real eviction is refused with 429, after which a drain retries. */
  async function refused(ordinal: number, message: RegExp): Promise<void> {
    await answered(broker, ordinal, { code: 429, message });
    const { code, causes } = await eventually(`${nameOf(ordinal)} refused`, 120_000, async () => {
      const answer = await evict(broker.api, namespace, nameOf(ordinal));
      return answer.code !== 429 || message.test(answer.message) ? answer : undefined;
    });
    assert.deepEqual([code, causes], [429, ["DisruptionBudget"]]);
  }

  test("rolls an OnDelete StatefulSet under load: it waits for a queue that lacks a member, and loses no confirmed message and never the majority", async (context) => {
    const { nodes, pods } = broker;
    let tookMs = 0;
    const load = await underLoad(nodes, async () => {
      await setMember(nodes, 2, queue, false);
      await broker.changeTemplate("2");
      const { sentence } = await eventually("the rollout waits for the queue", 120_000, async () => {
        const shown = await ledgerShows();
        return shown?.guard === "health-bad" ? shown : undefined;
      });
      assert.match(sentence, critical);
      assert.deepEqual(observer.takings, []);
      await setMember(nodes, 2, queue, true);
      const startedMs = performance.now();
      assert.deepEqual(await oneAtATime(rolledOut), all);
      tookMs = performance.now() - startedMs;
    });
    assert.ok((await server.metric("sluice_health_answers_total", { product: "rabbitmq", state: "good" })) >= size);
    const hooks = pods.endings.map(({ hookMs }) => seconds(hookMs)).join(", ");
    context.diagnostic(`rolled in ${seconds(tookMs)} once the member was back, hooks ${hooks}; ${load}`);
  });

  test("an eviction of a node that a queue needs is answered 429 with the queue's name, and the pod keeps running", async (context) => {
    const { nodes, pods } = broker;
    const { uid } = await broker.pod(0);
    // No probe has seen it yet, so the pod is still Ready.
    await nodes.stop(2, 0);
    await refused(0, critical);
    const { message } = await evict(broker.api, namespace, nameOf(0));
    // Sluice refuses for a pod that is known to be down without asking the nodes.
    await pods.probe(nameOf(2));
    await refused(0, /pods that are asked go one at a time .*: rabbitmq-2 is not ready, so rabbitmq-0 stays/);
    await stands(0, uid);
    await nodes.start(2);
    await pods.probe(nameOf(2));
    await answered(broker, 0, { code: 201, message: /^$/ });
    context.diagnostic(`while the pod of the node that was stopped was still Ready: ${message}`);
  });

  test("a node that gives no answer stays with the policy `wait`; with `go` it goes through its gate, while no other node is down", async () => {
    const { nodes, pods } = broker;
    const { uid } = await broker.pod(1);
    const setPolicy = (policy: "go" | null) =>
      broker.api.patch(broker.setPath, { metadata: { annotations: { "sluice.dev/health-unknown": policy } } });
    await nodes.setManagement(1, false);
    await refused(
      1,
      /rabbitmq-1 stays: asked about health, it gives no answer: GET rabbitmq-1\.rabbitmq in asked, .* ECONNREFUSED/,
    );
    assert.equal((await nodes.tool(2, "rabbitmqctl", "stop_app")).code, 0);
    await pods.probe(nameOf(2));
    await setPolicy("go");
    await refused(1, /pods that are asked go one at a time .*: rabbitmq-2 is not ready, so rabbitmq-1 stays/);
    await stands(1, uid);
    assert.equal((await nodes.tool(2, "rabbitmqctl", "start_app")).code, 0);
    await eventually("node 2 serves", 60_000, async () => ((await nodes.serves(2)) ? true : undefined));
    await pods.probe(nameOf(2));
    await answered(broker, 1, { code: 201, message: /^$/ });
    const { gate, isOrderly } = await broker.nextEnding(1, async () => {
      await eventually("rabbitmq-1 evicted", 60_000, async () =>
        (await evict(broker.api, namespace, nameOf(1))).code === 201 ? true : undefined,
      );
    });
    assert.deepEqual([gate?.outcome, isOrderly], ["passed", true]);
    await setPolicy(null);
    await broker.allReady();
    await answered(broker, 0, { code: 201, message: /^$/ });
  });

  test("32 evictions of three nodes at once, again and again until two have gone: two are never down together", async (context) => {
    const { api, nodes } = broker;
    const sampler = new Sampler(nodes, queue);
    const allowed = new Set<number>();
    const codes: Record<number, number> = {};
    const startedMs = performance.now();
    const storm = async () => {
      const asked = Array.from({ length: 32 }, (_, index) => index % size).filter((ordinal) => !allowed.has(ordinal));
      const answers = await Promise.all(
        asked.map(async (ordinal) => ({ ordinal, ...(await evict(api, namespace, nameOf(ordinal))) })),
      );
      for (const { code } of answers) codes[code] = (codes[code] ?? 0) + 1;
      for (const { code, ordinal } of answers) if (code === 201) allowed.add(ordinal);
      return allowed.size >= 2 ? true : undefined;
    };
    sampler.start();
    try {
      const gone = await oneAtATime(async () => {
        // A drain asks only every five seconds, and the nodes need the machine as well.
        await eventually("two were let go", 400_000, storm, 1_000);
        await broker.allReady();
      });
      // Parked evictions keep their connections, so an eviction that was sent later may come first when the first node is
      // back. Then it takes another node, or the same one again.
      assert.deepEqual([...new Set(gone)], [...allowed].sort());
    } finally {
      await sampler.stop();
    }
    const samples = await sampler.stop();
    assert.ok(samples.leastServing >= 2 && samples.leastOnline >= 2, JSON.stringify(samples));
    assert.ok(samples.leastServing < size, "what samples cannot see they cannot prove");
    const took = seconds(performance.now() - startedMs);
    context.diagnostic(`two gone and back in ${took}, answers ${JSON.stringify(codes)}, ${JSON.stringify(samples)}`);
  });
});
