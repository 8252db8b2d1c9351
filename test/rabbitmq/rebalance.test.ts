/**
 * The shipped function in a fake cluster whose pods are real RabbitMQ nodes: it spreads queue leaders again after a rollout.
 */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { rebalanceQueues } from "../../functions/rebalance-queues/function.ts";
import { createListReader } from "../../functions/shared/cache/listing.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import { createMemory } from "../../functions/shared/contract/memory.ts";
import { type ReconcileReport, silentReporter } from "../../functions/shared/contract/reporter.ts";
import { connectPods } from "../../functions/shared/http/connections.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import { eventually } from "../controlplane/api.ts";
import { RealTimeline } from "../fake-cluster/timeline.ts";
import { createWorld, type World } from "../fake-cluster/world.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";
import { packagesForTests } from "../support/packages.ts";
import { Nodes } from "./nodes.ts";
import { makeQuorumQueue } from "./queues.ts";

const packages = await packagesForTests();

const namespace = "broker";
const setKey = { namespace, name: "rabbit-a" };
const key = { resource: "statefulsets", ...setKey } as const;
const size = 3;
const queues = Array.from({ length: 12 }, (_, index) => `orders-${index}`);

/** A StatefulSet whose pods are the nodes, by their ordinals, and one process that handles it. */
class Stage {
  readonly #world: World = createWorld({ timeline: new RealTimeline(), readyAfterMs: 10, goneAfterMs: 10 });
  readonly #context: Context;
  readonly #pods: ReturnType<typeof connectPods>;
  readonly #guards: ReconcileReport[] = [];

  constructor(nodes: Nodes, [username, password]: readonly [string, string]) {
    const cluster = createWorldCluster(this.#world);
    this.#pods = connectPods({
      clock: cluster,
      userAgent: "sluice/0.0.0 (rabbitmq)",
      // All nodes use one port, each at an address of its own.
      lookup: (host, { all }, found) => {
        const address = nodes.hostOf(Number(/^rabbit-a-(\d+)\./.exec(host)?.[1]));
        return all ? found(null, [{ address, family: 4 }]) : found(null, address, 4);
      },
    });
    this.#world.addGroup({ namespace, group: "rabbit", zones: ["a"], replicas: size, updateStrategy: "RollingUpdate" });
    const annotations = {
      "sluice.dev/health-question": "rabbitmq",
      "sluice.dev/health-url": `http://:${nodes.managementPort}/api/health/checks/node-is-quorum-critical`,
      "sluice.dev/health-secret": "user",
    };
    const labels = { "sluice.dev/rebalance-queues": "true" };
    this.#world.store.patch("statefulsets", setKey, { metadata: { labels, annotations } });
    const data = { username: btoa(username), password: btoa(password) };
    this.#world.store.create("secrets", namespace, { metadata: { name: "user" }, data } as never);
    const reporter = { ...silentReporter, verdict: (report: ReconcileReport) => void this.#guards.push(report) };
    const settings = { rebalanceAfterMs: 1_000 };
    const served = {
      protocol,
      reporter,
      mode: "act",
      namespaces: undefined,
      settings,
      memoryOf: createMemory(),
    } as const;
    this.#context = { ...served, cluster, cache: createListReader(cluster, undefined), pods: this.#pods };
  }

  /** A pod goes, and its replacement is ready. */
  async replace(ordinal: number): Promise<void> {
    const pod = { namespace, name: `rabbit-a-${ordinal}` };
    const { uid } = this.#world.store.get("pods", pod).metadata;
    this.#world.store.delete("pods", pod, { preconditions: { uid } });
    await eventually(`another ${pod.name}`, 10_000, async () => {
      const isAnother = this.#world.store.find("pods", pod)?.metadata.uid !== uid;
      return isAnother && this.#world.isSettled() ? true : undefined;
    });
  }

  /** Reconciles until the report has this guard. */
  async until(guard: string): Promise<ReconcileReport> {
    const from = this.#guards.length;
    return eventually(guard, 60_000, async () => {
      const { requeueAfterMs = 0 } = await rebalanceQueues.reconcile(this.#context, key, { sweep: false });
      await delay(Math.min(requeueAfterMs, 500));
      return this.#guards.slice(from).find((report) => report.guard === guard);
    });
  }

  close(): Promise<void> {
    return this.#pods.close();
  }
}

suite("queue leaders of a real RabbitMQ cluster", { skip: packages === undefined }, () => {
  let nodes: Nodes;

  before(async () => {
    if (packages === undefined) return;
    nodes = await Nodes.make(packages, size);
    await nodes.start(0);
    await Promise.all([nodes.start(1), nodes.start(2)]);
    await Promise.all(queues.map((queue) => makeQuorumQueue(nodes, queue)));
  });

  after(() => nodes?.close());

  /** Number of leaders on each node. */
  async function leaders(): Promise<readonly number[]> {
    const found = await nodes.ask<readonly { readonly leader: string }[]>(0, "/api/queues?disable_stats=true");
    return Array.from(
      { length: size },
      (_, index) => found.filter(({ leader }) => leader === nodes.nameOf(index)).length,
    );
  }

  const isUneven = (counts: readonly number[]): boolean =>
    counts.length > 0 && Math.max(...counts) - Math.min(...counts) >= 3;

  /** A node leaves the cluster, and comes back with hardly a leader. */
  async function comeBack(index: number): Promise<void> {
    // Drains as the stop gate does, which moves its leaders away first.
    assert.equal((await nodes.tool(index, "rabbitmq-upgrade", "drain")).code, 0);
    for (const command of ["stop_app", "start_app"])
      assert.equal((await nodes.tool(index, "rabbitmqctl", command)).code, 0, command);
    await eventually(`all members are online again`, 60_000, async () => {
      const found = await nodes.ask<readonly { readonly online: readonly string[] }[]>(
        index,
        "/api/queues?disable_stats=true",
      );
      return found.length === queues.length && found.every(({ online }) => online?.length === size) ? true : undefined;
    });
  }

  test("after two nodes were away the leaders are uneven, and after a rebalance each node has its share", async (context) => {
    const stage = new Stage(nodes, ["guest", "guest"]);
    try {
      await stage.until("rebalanced");
      let before: readonly number[] = [];
      // RabbitMQ spreads leaders after it has answered: on a busy machine some of that comes in between.
      for (let turn = 0; turn < 3 && !isUneven(before); turn++) {
        for (const ordinal of [2, 1]) {
          await comeBack(ordinal);
          await stage.replace(ordinal);
        }
        before = await leaders();
      }
      const startedMs = performance.now();
      const { message } = await stage.until("rebalanced");
      const after = await eventually("the leaders spread", 30_000, async () => {
        const now = await leaders();
        return Math.max(...now) - Math.min(...now) <= 1 ? now : undefined;
      });
      context.diagnostic(
        `leaders of ${queues.length} queues on 3 nodes: ${before} before, ${after} after ` +
          `${((performance.now() - startedMs) / 1_000).toFixed(1)} s; ${message}`,
      );
      assert.ok(isUneven(before), `${before}: nothing to spread`);
      assert.deepEqual(after, [4, 4, 4]);
    } finally {
      await stage.close();
    }
  });

  test("a user without the tag administrator is refused, and so is one with a wrong password, and the message says so", async () => {
    await nodes.ask(0, "/api/users/monitor", "PUT", { password: "s3cret", tags: "monitoring" });
    const cases = [
      ["monitor", "s3cret", /have the tag administrator: rabbit-a-0 answered HTTP 401 .*Not administrator user/],
      ["guest", "wrong", /password must be right, .*: rabbit-a-0 answered HTTP 401 .*Login failed/],
    ] as const;
    for (const [user, password, pattern] of cases) {
      const stage = new Stage(nodes, [user, password]);
      try {
        assert.match((await stage.until("rebalance-refused")).message, pattern);
      } finally {
        await stage.close();
      }
    }
  });

  test("a frozen node gives no answer", async () => {
    const stage = new Stage(nodes, ["guest", "guest"]);
    nodes.freeze(0);
    try {
      const { message } = await stage.until("rebalance-unanswered");
      assert.match(message, /rabbit-a-0\.rabbit in broker, .*no answer within 5000 ms/);
    } finally {
      nodes.thaw(0);
      await stage.close();
    }
  });
});
