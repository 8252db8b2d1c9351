/** What the tools of a real cluster and the stop gate report about nodes that do not answer, or whose loss costs a majority. */
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { packagesForTests } from "../support/packages.ts";
import { Gate, type GateEnd, makePodFiles } from "./gate.ts";
import { Nodes } from "./nodes.ts";
import { makeQuorumQueue } from "./queues.ts";

const packages = await packagesForTests();

suite("the stop gate beside the real tools of RabbitMQ", { skip: packages === undefined }, () => {
  let nodes: Nodes;

  before(async () => {
    if (packages === undefined) return;
    nodes = await Nodes.make(packages, 3);
    await nodes.start(0);
    await Promise.all([nodes.start(1), nodes.start(2)]);
    await makeQuorumQueue(nodes, "orders");
  });

  after(() => nodes?.close());

  /** A gate beside a node, whose policy releases at once what it does not know. `body` runs while the gate does. */
  async function gateOf(
    index: number,
    settings: Readonly<Record<string, string>>,
    body: (gate: Gate, marker: string) => Promise<unknown> = () => Promise.resolve(),
  ): Promise<GateEnd> {
    const pod = await makePodFiles();
    const policy = { STOP_GATE_ON_UNKNOWN: "release", STOP_GATE_UNKNOWN_SECONDS: "0", STOP_GATE_POLL_SECONDS: "1" };
    const environment = { ...nodes.environment(index), ...policy, ...settings };
    const gate = new Gate({ pod, shell: [packages?.dash ?? "sh"], environment });
    try {
      await body(gate, pod.marker);
      return await gate.ended;
    } finally {
      await gate.kill();
      await pod.remove();
    }
  }

  test("a node that no queue needs is drained, and its gate ends", async () => {
    const { code, report } = await gateOf(2, {});
    assert.deepEqual([code, report], [0, "stop-gate: passed: no queue needs this node; it is drained"]);
    const { text } = await nodes.tool(2, "rabbitmqctl", "cluster_status");
    assert.match(text, /rabbit-2@localhost, status: \S*marked for maintenance/);
    assert.equal((await nodes.tool(2, "rabbitmq-upgrade", "revive")).code, 0);
  });

  test("a name without a running node counts as down", async () => {
    const { code, outcome } = await gateOf(0, { RABBITMQ_NODENAME: "absent@localhost" });
    assert.deepEqual([code, outcome], [0, "node-down"]);
  });

  test("a node with another cookie does not count as down", async () => {
    const home = await makePodFiles();
    try {
      await mkdir(join(home.folder, "home"));
      await writeFile(join(home.folder, "home/.erlang.cookie"), "another", { mode: 0o400 });
      const { code, outcome, report } = await gateOf(0, {
        HOME: join(home.folder, "home"),
        STOP_GATE_DRAIN_SECONDS: "5",
      });
      assert.deepEqual([code, outcome], [1, "released-unknown"], report);
      assert.match(report, /no tool says that it has ended: .*Failed to connect and authenticate/);
    } finally {
      await home.remove();
    }
  });

  test("a frozen node does not count as down", async () => {
    nodes.freeze(1);
    try {
      const { code, outcome, report } = await gateOf(1, { STOP_GATE_CALL_SECONDS: "3", STOP_GATE_DRAIN_SECONDS: "2" });
      assert.deepEqual([code, outcome], [1, "released-unknown"], report);
      assert.match(report, /ping ended with 69, the check for quorum with 75: .*timed out/);
    } finally {
      nodes.thaw(1);
    }
  });

  test("a node whose application is stopped counts as down, and meanwhile the others are critical, with the name of the queue", async () => {
    assert.equal((await nodes.tool(2, "rabbitmqctl", "stop_app")).code, 0);
    const { code, outcome, report } = await gateOf(2, {});
    assert.deepEqual([code, outcome], [0, "node-down"], report);
    const end = await gateOf(0, {}, async (gate, marker) => {
      const line = await gate.reported(/^waits \(quorum-critical\)/, 60_000);
      assert.match(line, /queue 'orders' in vhost '\/' would lose quorum if node rabbit-0@localhost is stopped/);
      assert.ok(gate.isRunning());
      await writeFile(marker, "true");
    });
    assert.deepEqual([end.code, end.outcome], [0, "skip-marker"]);
    assert.equal((await nodes.tool(2, "rabbitmqctl", "start_app")).code, 0);
    assert.equal((await gateOf(0, {})).outcome, "passed");
  });
});
