/** The alert of restarts by Prometheus's own code, over what the shipped metrics of its replicas export. */
import assert from "node:assert/strict";
import { mock, suite, test } from "node:test";
import { createReporting } from "../../triggers/telemetry/logs-and-metrics.ts";
import { ensureAlerting, restartAlertsAfter, type Scrape } from "./alerting.ts";

const program = await ensureAlerting(console.error).catch((error: Error) => error);
if (program instanceof Error && process.env.CI === "true") throw program;
const skip = program instanceof Error ? `no alerting rules: ${program.message}` : false;

const minuteMs = 60_000;
const startMs = Date.UTC(2026, 10, 27);

/** What fired in an hour with the guard of each minute, with the minute, and the first description. */
async function firedBy(guardOf: (minute: number) => string) {
  assert.ok(!(program instanceof Error));
  mock.timers.enable({ apis: ["Date"], now: startMs });
  const scrapes: Scrape[] = [];
  try {
    const destination = { write: () => {} };
    const fixed = { version: "0.1.0", serving: "all", level: "error", destination } as const;
    const reporting = createReporting({ ...fixed, keys: () => 0 });
    let since = { guard: "", sinceMs: 0 };
    for (let minute = 0; minute <= 60; minute++) {
      const atMs = startMs + minute * minuteMs;
      mock.timers.setTime(atMs);
      const guard = guardOf(minute);
      if (since.guard !== guard) since = { guard, sinceMs: atMs };
      const key = { namespace: "search", group: "db" };
      const report = { function: "advance-process-restart", zone: "db", message: "", shadow: false };
      reporting.verdict({ key, ...report, ...since });
      const text = await reporting.metrics.registry.metrics();
      scrapes.push({ atMs, labels: { namespace: "search", pod: "one" }, text });
    }
  } finally {
    mock.timers.reset();
  }
  const { fired, alerts } = await restartAlertsAfter(program, scrapes);
  return {
    fired: fired.map(({ name, atMs }) => `${name} at minute ${Math.round((atMs - startMs) / minuteMs)}`),
    labels: alerts[0]?.labels,
    description: alerts[0]?.annotations.description,
  };
}

suite("the alert of restarts", { skip }, () => {
  test("fires when a restart has waited for the same guard for 15 minutes, and says how to see why and to withdraw it", async () => {
    const { fired, labels, description } = await firedBy((minute) => (minute < 5 ? "done" : "manager-silent"));
    assert.deepEqual(fired, ["SluiceProcessRestartWaits at minute 21"]);
    assert.deepEqual([labels?.namespace, labels?.rollout_group, labels?.guard], ["search", "db", "manager-silent"]);
    assert.match(description ?? "", /^First: kubectl sluice why db -n search .* restart db --cancel -n search /);
  });

  test("does not fire while restarts go on for an hour, or none is wanted", async () => {
    const steps = ["restart-calling", "restart-stopping", "restart-starting", "restart-joining"];
    assert.deepEqual((await firedBy((minute) => steps[minute % 4] ?? "")).fired, []);
    assert.deepEqual((await firedBy(() => "done")).fired, []);
  });
});
