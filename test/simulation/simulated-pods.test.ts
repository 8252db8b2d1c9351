import assert from "node:assert/strict";
import { test } from "node:test";
import { type PodAddress, PodHttpError } from "../../functions/shared/http/pod-http.ts";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld } from "../fake-cluster/world.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";
import { createDraw } from "./draw.ts";
import { newProcess } from "./simulated-cluster.ts";
import { createSimulatedPods, noPodFaults, type PodFaults } from "./simulated-pods.ts";

const address: PodAddress = {
  scheme: "http",
  pod: "group-a-0",
  service: "group",
  namespace: "db",
  group: "group",
  port: 80,
};

function stage(faults: PodFaults = noPodFaults, replicas = 1) {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  world.addGroup({ namespace: "db", group: "group", zones: ["a"], replicas });
  world.settle();
  const process = newProcess("caller");
  const arrived: string[] = [];
  const pods = createSimulatedPods({
    world,
    draw: createDraw(7),
    process,
    cluster: createWorldCluster(world),
    faults: () => faults,
    answer: (_, { path }) => {
      arrived.push(path);
      return { status: 200, body: path };
    },
    onResume() {},
  });
  return { timeline, process, arrived, pods };
}

test("whatever is lost or late, a call ends in time, and reports that nothing was sent only if nothing arrives", async () => {
  const { timeline, arrived, pods } = stage({ latencyMs: 5, lose: 0.15, late: 0.2, lateMs: 15_000 }, 30);
  const ends: Record<string, "answered" | "sent" | "unsent"> = {};
  const startMs = timeline.nowMs();
  for (let count = 0; count < 30; count++) {
    const path = `/${count}`;
    // No group gets more calls at once than the limit.
    const to = { ...address, pod: `group-a-${count}`, group: `group-${count % 4}` };
    void pods.send(to, { method: "POST", path }).then(
      () => {
        ends[path] = "answered";
      },
      (error) => {
        assert.ok(error instanceof PodHttpError && error.failed === "time", String(error));
        ends[path] = error.sent ? "sent" : "unsent";
      },
    );
  }
  await timeline.run(() => Object.keys(ends).length === 30);
  assert.ok(timeline.nowMs() - startMs <= 5_000, `${timeline.nowMs() - startMs} ms`);
  const before = arrived.length;
  let isOver = false;
  timeline.after(60_000, () => {
    isOver = true;
  });
  await timeline.run(() => isOver);
  // Some calls arrive when their callers no longer wait for an answer.
  assert.ok(arrived.length > before);
  const count = (path: string) => arrived.filter((one) => one === path).length;
  for (const [path, end] of Object.entries(ends)) {
    assert.ok(end === "answered" ? count(path) === 1 : count(path) <= (end === "sent" ? 1 : 0), `${path} ${end}`);
  }
  assert.deepEqual([...new Set(Object.values(ends))].sort(), ["answered", "sent", "unsent"]);
});

test("the calls of a stopped process go on when it goes on, and those of a killed process never do", async () => {
  const { timeline, process, arrived, pods } = stage();
  let ended = 0;
  const end = () => {
    ended += 1;
  };
  const goOn = async () => {
    let isOver = false;
    timeline.after(1_000, () => {
      isOver = true;
    });
    await timeline.run(() => isOver);
  };
  void pods.send(address, { method: "GET", path: "/stopped" }).then(end, end);
  process.backlog = [];
  await goOn();
  assert.deepEqual([ended, arrived], [0, []]);
  const { backlog } = process;
  process.backlog = undefined;
  for (const go of backlog) go();
  await goOn();
  assert.deepEqual([ended, arrived], [1, ["/stopped"]]);
  void pods.send(address, { method: "GET", path: "/killed" }).then(end, end);
  process.alive = false;
  await goOn();
  assert.deepEqual([ended, arrived], [1, ["/stopped"]]);
});
