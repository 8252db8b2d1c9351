/** The page of metrics of an agent: its format, and what it shows of an agent that runs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { hasResetBit, WatchdogDevice } from "../../../../../functions/fence-node/agent/device.ts";
import { escapeLabel, formatMetrics, type PageMeasures } from "../../../../../functions/fence-node/agent/metrics.ts";
import { armed, key, World } from "./world.ts";

const page: PageMeasures = {
  nowMs: 10_000,
  permitMs: 7_500,
  renewals: 3,
  lostRenewals: 1,
  feeds: 20,
  isArmed: true,
  why: undefined,
  isFenced: false,
  drillsAnswered: 4,
  hasReset: true,
  residentBytes: 60_000_000,
};
const seriesOf = (text: string) => text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));

test("each series has its help and its type before it, and the page ends with a line feed", () => {
  const text = formatMetrics(page);
  assert.ok(text.endsWith("\n"));
  const lines = text.trimEnd().split("\n");
  for (let at = 0; at < lines.length; at += 3) {
    const [, name = ""] = /^# HELP (\S+) .+\.$/.exec(lines[at] ?? "") ?? [];
    assert.match(lines[at + 1] ?? "", new RegExp(`^# TYPE ${name} (gauge|counter)$`));
    assert.match(lines[at + 2] ?? "", new RegExp(`^${name}(\\{.*\\})? [\\d.]+$`));
  }
  assert.deepEqual(seriesOf(text), [
    'sluice_agent_mode{mode="armed",why=""} 1',
    "sluice_agent_permit_age_seconds 2.5",
    "sluice_agent_feeds_total 20",
    "sluice_agent_renewals_total 3",
    "sluice_agent_renewals_failed_total 1",
    "sluice_agent_drills_answered_total 4",
    "sluice_agent_fenced 0",
    "sluice_agent_boot_after_watchdog 1",
    "process_resident_memory_bytes 60000000",
  ]);
});

test("what is not known is missing, and an agent that is not armed shows why", () => {
  const found = seriesOf(
    formatMetrics({ ...page, permitMs: undefined, hasReset: undefined, isArmed: false, why: "no-peers" }),
  );
  assert.equal(found[0], 'sluice_agent_mode{mode="explicit-only",why="no-peers"} 1');
  assert.ok(!found.some((line) => /permit_age|after_watchdog/.test(line)), found.join("\n"));
});

test("a reset by the watchdog is one bit of the bootstatus, and without one nothing is known", () => {
  for (const [text, hasReset] of [
    ["32", true],
    ["33", true],
    ["0", false],
    ["1", false],
    ["", undefined],
    ["rubbish", undefined],
    [undefined, undefined],
  ] as const)
    assert.equal(hasResetBit(text), hasReset, text);
  assert.equal(new WatchdogDevice("/no/watchdog", 1_000).hasResetMachine(), undefined);
});

test("no text ends the value of a label", () => {
  assert.equal(escapeLabel('a"b\\c\nd'), 'a\\"b\\\\c\\nd');
});

test("the page of an agent that runs: its feeds, renewals, permit and mode, and a fence of its boot", async () => {
  const world = new World();
  const agent = world.agent();
  assert.equal(agent.measures.permitMs, undefined);
  await world.run(agent, 20);
  const { renewals, lostRenewals, feeds, why, isArmed, isFenced, permitMs = 0 } = agent.measures;
  assert.deepEqual([renewals, lostRenewals, isArmed, why, isFenced], [3, 0, false, "no-peers", false]);
  assert.equal(feeds, world.device.replaceAll("o", "").length);
  assert.ok(world.nowMs - permitMs <= 5_000);
  world.refused.patch = 0;
  world.refused.read = 0;
  await world.run(agent, 15);
  assert.equal(agent.measures.lostRenewals, 3);
  delete world.refused.patch;
  delete world.refused.read;
  world.annotate({ [key("fence-armed")]: armed });
  await world.run(agent, 10);
  assert.equal(agent.measures.isFenced, true);
  assert.equal(agent.measures.lostRenewals, 3);
});
