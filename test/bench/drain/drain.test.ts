/** Tests what the bench of drains reads from a command line, from kubectl's output and from figures. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sumOf } from "../eviction/bystander.ts";
import { readOptions, type SharedOptions } from "../options.ts";
import { parseSize, type Size } from "../sizes.ts";
import type { Trial } from "../trial.ts";
import {
  countRefusals,
  type DrainFigures,
  drainBenchmark,
  drainContenders,
  drainLimitMs,
  drainTable,
} from "./drain.ts";

function optionsOf(...argv: string[]): SharedOptions {
  const reading = readOptions(["drain", ...argv]);
  return reading.kind === "drain" ? reading.options : assert.fail(JSON.stringify(reading));
}

const size = (text: string): Size => parseSize(text) ?? assert.fail(text);

describe("the bench of drains", () => {
  it("has two budgets and three contenders by default, and no flag of another one", () => {
    const options = optionsOf();
    assert.deepEqual(
      options.sizes.map(({ label, budget }) => [label, budget]),
      [
        ["3x20/5", 5],
        ["3x20/1", 1],
      ],
    );
    assert.deepEqual(drainContenders(options), ["sluice", "sluice-refusing", "peer-tuned"]);
    assert.equal(drainBenchmark(options).turns.length, 2 * 3 * options.repeat);
    const wrong = readOptions(["drain", "--only", "storm", "--in-flight", "3"]);
    assert.equal(wrong.kind === "wrong" && wrong.mistakes.length, 2);
  });

  it("has the pods of one zone as its limit", () => {
    assert.deepEqual([drainLimitMs(size("3x20/5")), drainLimitMs(size("3x20/1"))], [4_000, 20_000]);
  });

  it("counts the refusals that kubectl reports before it retries, and no other output", () => {
    const refused = `error when evicting pods/"bench-zone-a-3" -n "bench-1" (will retry after 5s): admission webhook denied the request`;
    const output = ["evicting pod bench-1/bench-zone-a-3", refused, "pod/bench-zone-a-3 evicted", refused].join("\n");
    assert.equal(countRefusals(output), 2);
    assert.equal(countRefusals("evicting pod bench-1/bench-zone-a-3"), 0);
  });

  it("marks a broken budget, and shows the drain beside the limit", () => {
    const figures: DrainFigures = {
      ...{ zones: [], mostDown: 6, mostZonesDown: 1 },
      ...{ drainedMs: 5_000, readyMs: 6_000, drainedOverLimit: 1.25, refusals: 3, requestsPerPod: 2.5 },
    };
    const trial: Trial<DrainFigures> = { contender: "sluice", size: "3x20/5", load: 0, figures, failure: undefined };
    const table = drainTable(size("3x20/5"), ["sluice"], [trial]);
    assert.match(table, /the limit is 4 s/);
    assert.match(table, /kubectl drain, seconds +5\.0\n/);
    assert.match(table, /pods of a zone down at once, worst +! 6\n/);
  });
});

describe("the bystander", () => {
  it("adds the series of a metric that have a label, and no others", () => {
    const page = [
      "# TYPE seats gauge",
      'seats{level="a"} 2',
      'seats{level="b"} 3',
      'seats_max{level="a"} 50',
      'seats{queue="2",level="a"} 4',
    ];
    assert.equal(sumOf(page.join("\n"), "seats", 'level="a"'), 6);
    assert.equal(sumOf("", "seats", 'level="a"'), 0);
  });
});
