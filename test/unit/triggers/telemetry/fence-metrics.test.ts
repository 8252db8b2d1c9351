/** The metrics of fences: counters from the first list on, gauges that vanish with what this process knows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import { createFenceMetrics, listedForMs } from "../../../../triggers/telemetry/fence-metrics.ts";

const startMs = Date.UTC(2026, 10, 28);

function scene() {
  const registry = new Registry();
  const metrics = createFenceMetrics([registry]);
  const series = async () =>
    (await registry.metrics()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return { metrics, series };
}

test("before the first list there are no series, and after it each kind of evidence stands at 0", async () => {
  const { metrics, series } = scene();
  assert.deepEqual(await series(), []);
  metrics.fences({ phases: new Map(), waiting: [] });
  assert.deepEqual(
    (await series()).filter((line) => line.startsWith("sluice_fence_evidence_total")),
    ["boot-id", "confirmed", "out-of-service", "time"].map((one) => `sluice_fence_evidence_total{evidence="${one}"} 0`),
  );
});

test("evidence is counted, and its time is observed where the fence was armed", async () => {
  const { metrics, series } = scene();
  metrics.evidence({ evidence: "time", seconds: 63 });
  metrics.evidence({ evidence: "boot-id", seconds: undefined });
  const found = await series();
  assert.ok(found.includes('sluice_fence_evidence_total{evidence="boot-id"} 1'), found.join("\n"));
  assert.ok(found.includes('sluice_fence_evidence_seconds_bucket{le="65",evidence="time"} 1'));
  assert.ok(found.includes('sluice_fence_evidence_seconds_bucket{le="40",evidence="time"} 0'));
  assert.ok(!found.some((line) => line.startsWith("sluice_fence_evidence_seconds") && line.includes("boot-id")));
});

test("a guard that no fence waits for any more has no series, and the gauges of a process that lists no more vanish", async ({
  mock,
}) => {
  mock.timers.enable({ apis: ["Date"], now: startMs });
  try {
    const { metrics, series } = scene();
    const gauges = async () => (await series()).filter((line) => !line.includes("evidence"));
    const waiting = [{ guard: "quorum", fences: 2, sinceMs: startMs - 60_000 }];
    metrics.fences({ phases: new Map([["armed", 2]]), waiting });
    metrics.agents({ modes: new Map([["armed", 3]]), slots: 1 });
    metrics.nodeHealth(new Map([["counting", 1]]));
    assert.deepEqual(await gauges(), [
      'sluice_fences{phase="armed"} 2',
      'sluice_fences_waiting{guard="quorum"} 2',
      `sluice_fence_waiting_since_timestamp_seconds{guard="quorum"} ${startMs / 1000 - 60}`,
      `sluice_fence_last_list_timestamp_seconds{resource="nodes"} ${startMs / 1000}`,
      'sluice_fence_nodes{mode="armed"} 3',
      'sluice_fence_slots{state="taken"} 1',
      'sluice_node_health_nodes{guard="counting"} 1',
    ]);
    metrics.fences({ phases: new Map([["armed", 1]]), waiting: [] });
    metrics.agents({ modes: new Map([["armed", 3]]), slots: undefined });
    metrics.nodeHealth(new Map());
    const after = await gauges();
    assert.ok(!after.some((line) => /waiting|slots|health/.test(line)), after.join("\n"));
    mock.timers.setTime(startMs + listedForMs + 1);
    assert.deepEqual(await gauges(), [`sluice_fence_last_list_timestamp_seconds{resource="nodes"} ${startMs / 1000}`]);
  } finally {
    mock.timers.reset();
  }
});
