/** The bench of restarts without nodes: its flags, its bounds and its table. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readOptions } from "../options.ts";
import {
  brokenPromises,
  longerInPlace,
  type RestartTrial,
  restartTable,
  type StartDelay,
  type Way,
} from "./figures.ts";

function trial(way: Way, startDelay: StartDelay, ...seconds: readonly number[]): RestartTrial {
  const figures = { wholeMs: 60_000, downMs: seconds.map((one) => one * 1_000), readErrors: 0 };
  return { way, startDelay, load: 1, figures, failure: undefined };
}

const failed: RestartTrial = { ...trial("in-place", 0), figures: undefined, failure: "not within 240 s" };
const kept = [
  trial("in-place", 0, 3, 2),
  trial("deleted", 0, 1, 1.5),
  trial("in-place", 10, 2, 2),
  trial("deleted", 10, 10, 12),
];

describe("the bench of restarts", () => {
  it("has three rounds by default, and no flags of groups, contenders or parts", () => {
    const reading = readOptions(["restart"]);
    assert.deepEqual([reading.kind, reading.kind === "restart" && reading.options.repeat], ["restart", 3]);
    for (const flags of [["--sizes", "3x20"], ["--contenders", "sluice"], ["--fairness"], ["--against", "."]])
      assert.equal(readOptions(["restart", ...flags]).kind, "wrong", flags.join(" "));
    assert.equal(readOptions(["restart", "--only", "storm"]).kind, "wrong");
  });

  it("keeps its bounds for each pod: 2 s longer at most, and 8 s shorter where a new pod starts after 10 s", () => {
    assert.deepEqual(
      [longerInPlace(kept, 0), longerInPlace(kept, 10)],
      [
        [2, 0.5],
        [-8, -10],
      ],
    );
    assert.deepEqual(brokenPromises(kept), []);
    assert.match(brokenPromises([...kept, trial("deleted", 0, 0.8, 1.5)]).join(), /after 0 s.* 2\.1 s longer in place/);
    assert.match(
      brokenPromises([...kept, trial("deleted", 10, 9.8, 12)]).join(),
      /after 10 s.* -7\.9 s longer in place/,
    );
    assert.deepEqual(brokenPromises([trial("in-place", 0, 90)]), [], "nothing was deleted");
  });

  it("shows each pod in each case, and which trials have ended", () => {
    const lines = restartTable([...kept, failed], ["a-0", "b-0"]).split("\n");
    const cellsOf = (label: string) =>
      lines
        .find((one) => one.trim().startsWith(label))
        ?.trim()
        .split(/ {2,}/)
        .slice(1);
    assert.deepEqual(cellsOf("seconds"), ["in-place, 0 s", "deleted, 0 s", "in-place, 10 s", "deleted, 10 s"]);
    assert.deepEqual(cellsOf("a-0 has no process"), ["3.0", "1.0", "2.0", "10.0"]);
    assert.deepEqual(cellsOf("trials that ended"), ["1 of 2", "1 of 1", "1 of 1", "1 of 1"]);
  });
});
