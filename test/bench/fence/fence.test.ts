/** The bench of fences without machines: its flags, its bounds, its tables, and fences in virtual time. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { agentSettings } from "../../../functions/fence-node/agent/settings.ts";
import { controllerManagerCommand } from "../../controlplane/commands.ts";
import { layoutOf } from "../../controlplane/configuration.ts";
import { defaultTimes, scaledTimes } from "../../fencing/times.ts";
import { readOptions } from "../options.ts";
import { reportOf } from "./fence.ts";
import type { FenceCase, FenceFigures, FenceTrial } from "./figures.ts";
import { simulateFence } from "./simulated.ts";
import { brokenBounds, fenceTable, sizesTable } from "./table.ts";

const silent: FenceFigures = {
  cutToUnknownMs: 48_000,
  cutToResetMs: 47_000,
  markToArmedMs: 300,
  armedToResetMs: undefined,
  armedToEvidenceMs: 63_000,
  statusToEvidenceMs: undefined,
  evidenceToTaintMs: 20,
  taintToReplacedMs: 12_000,
  replacedToReadyMs: 100,
  markToReadyElsewhereMs: 76_000,
  statusToCleanMs: 400,
};
const returning: FenceFigures = {
  ...silent,
  cutToUnknownMs: undefined,
  cutToResetMs: undefined,
  armedToResetMs: 13_000,
  armedToEvidenceMs: undefined,
  statusToEvidenceMs: 80,
  evidenceToTaintMs: undefined,
  taintToReplacedMs: undefined,
  replacedToReadyMs: undefined,
  markToReadyElsewhereMs: undefined,
};

function trial(fenceCase: FenceCase, changes: Partial<FenceFigures> = {}): FenceTrial {
  const figures = { ...(fenceCase === "returning" ? returning : silent), ...changes };
  return { fenceCase, node: "node-1", load: 1, figures, failure: undefined };
}

const failed: FenceTrial = { ...trial("silent"), figures: undefined, failure: "not within 240 s: evidence" };
const sized = { nodes: 10, peers: 9, markToArmedMs: 57, armedToEvidenceMs: 62_036, markToTaintMs: 62_109 };

function cellsOf(text: string, label: string): readonly string[] | undefined {
  const line = text.split("\n").find((one) => one.trim().startsWith(label));
  return line?.trim().split(/ {2,}/).slice(1);
}

describe("the bench of fences", () => {
  it("has all cases and three rounds by default, and no flags of groups or contenders", () => {
    const reading = readOptions(["fence"]);
    assert.ok(reading.kind === "fence");
    assert.deepEqual(reading.options.parts, ["silent", "silent-at-once", "returning"]);
    assert.equal(reading.options.repeat, 3);
    const one = readOptions(["fence", "--only", "returning", "--repeat", "1"]);
    assert.deepEqual(one.kind === "fence" && one.options.parts, ["returning"]);
    for (const flags of [["--sizes", "3x20"], ["--contenders", "sluice"], ["--fairness"], ["--against", "."]]) {
      assert.equal(readOptions(["fence", ...flags]).kind, "wrong", flags.join(" "));
    }
    assert.equal(readOptions(["fence", "--only", "storm"]).kind, "wrong");
  });

  it("leaves all times of agents and of Kubernetes as they are by default", () => {
    const flagsFor = ({ controllers }: typeof defaultTimes) =>
      controllerManagerCommand("/assets", layoutOf("/data"), controllers).args;
    const monitor = (flag: string) => flag.startsWith("--node-monitor");
    assert.ok(flagsFor(scaledTimes).some(monitor));
    assert.ok(!flagsFor(defaultTimes).some(monitor), "the controller of nodes has its own times");
    assert.match(flagsFor(defaultTimes).join(), /node-lifecycle-controller/);
    assert.deepEqual(defaultTimes.agent, {});
    const { renewEveryMs, renewTimeoutMs, freshMs, permitMs } = agentSettings;
    const defaults = [renewEveryMs, renewTimeoutMs, freshMs, permitMs].map(({ fallback }) => fallback);
    assert.deepEqual([...defaults, defaultTimes.watchdogMs], ["5s", "3s", "20s", "40s", 10_000]);
  });

  it("keeps its bounds by the worst trial: 75 s and 110 s of a silent node, 5 s of one that is back", () => {
    const kept = [
      trial("silent", { armedToEvidenceMs: 75_000, markToReadyElsewhereMs: 110_000 }),
      trial("returning", { statusToEvidenceMs: 5_000 }),
    ];
    assert.deepEqual(brokenBounds(kept), []);
    const broken = [
      trial("silent"),
      trial("silent", { armedToEvidenceMs: 75_100 }),
      trial("silent-at-once", { markToReadyElsewhereMs: 110_100 }),
      trial("returning", { statusToEvidenceMs: 5_100 }),
    ];
    assert.deepEqual(
      brokenBounds(broken).map(({ fenceCase, seconds, atMost }) => [fenceCase, seconds, atMost]),
      [
        ["silent", 75.1, 75],
        ["returning", 5.1, 5],
        ["silent-at-once", 110.1, 110],
      ],
    );
  });

  it("fails when a bound is broken or a trial has failed, and says which", () => {
    const good = [trial("silent"), trial("silent-at-once"), trial("returning")];
    assert.equal(reportOf(good, [sized]).exitCode, 0);
    const late = reportOf([...good, trial("silent", { armedToEvidenceMs: 80_000 })], [sized]);
    assert.equal(late.exitCode, 1);
    assert.match(late.text, /silent: from armed until time is evidence: 80\.0 s, at most 75 s/);
    const cut = reportOf(good, [sized], ["round 2/3: the cluster did not start"]);
    assert.equal(cut.exitCode, 1);
    assert.match(cut.text, /from armed until time is evidence.*round 2\/3: the cluster did not start/s);
    const lost = reportOf([...good, failed], [sized]);
    assert.equal(lost.exitCode, 1);
    assert.match(lost.text, /silent of node-1 failed: not within 240 s: evidence/);
  });

  it("shows medians and extremes beside the bounds and the original's sum, and marks a broken bound", () => {
    const late = { armedToEvidenceMs: 76_000, markToReadyElsewhereMs: 90_000 };
    const trials = [trial("silent"), trial("silent", late), failed, trial("returning")];
    const text = fenceTable(trials);
    assert.deepEqual(cellsOf(text, "seconds"), ["silent", "returning", "at most"]);
    assert.deepEqual(cellsOf(text, "from armed until time is evidence"), ["! 69.5 (63.0–76.0)", "75"]);
    assert.deepEqual(cellsOf(text, "from the mark until the pod is Ready on another node"), [
      "83.0 (76.0–90.0)",
      "110",
    ]);
    assert.deepEqual(cellsOf(text, "trials that ended"), ["2 of 3", "1 of 1"]);
    assert.deepEqual(cellsOf(text, "load of this machine before each trial"), ["1.0", "1.0"]);
    assert.deepEqual(cellsOf(text, "self-node-remediation waits, by its own formula"), ["130", "130"]);
    assert.match(text, /The pod has no volume/);
  });

  it("shows what the original waits for at other sizes", () => {
    const text = sizesTable([3, 10, 100, 1_000].map((nodes) => ({ ...sized, nodes })));
    assert.deepEqual(cellsOf(text, "self-node-remediation waits"), ["130", "148", "244", "244"]);
    assert.deepEqual(cellsOf(text, "a silent node: from armed"), ["62.0", "62.0", "62.0", "62.0"]);
  });

  it("takes as long among 40 nodes as among 3, by the shipped function in virtual time", async () => {
    const [few, many] = [await simulateFence(3, 10), await simulateFence(40, 10)];
    assert.deepEqual([few.peers, many.peers], [2, 12]);
    assert.equal(many.armedToEvidenceMs, few.armedToEvidenceMs);
    assert.ok(few.armedToEvidenceMs >= 62_000 && few.armedToEvidenceMs < 65_000, `${few.armedToEvidenceMs} ms`);
    assert.equal((await simulateFence(3, 30)).armedToEvidenceMs - few.armedToEvidenceMs, 40_000, "W counts twice");
  });
});
