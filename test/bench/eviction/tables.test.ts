import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContenderName } from "../contenders.ts";
import type { Effort, Trial } from "../trial.ts";
import type { AnswerReport } from "./answers.ts";
import { type ForgedFigures, forgedTable } from "./forged.ts";
import { type MemoryFigures, memoryTable } from "./memory.ts";
import { type ReviewFigures, reviewTable, type StepFigures } from "./reviews.ts";

const size = { label: "3x20", zones: 3, pods: 20, budget: 5 };
const effort: Effort = {
  requests: 500,
  watches: 0,
  requestCounts: [],
  bytesRead: 0,
  cpuSeconds: 2,
  residentBytes: 0,
  peakResidentBytes: 0,
  controlPlaneCpuSeconds: 0,
  harnessCpuSeconds: 1,
};
const report: AnswerReport = {
  answers: 1_000,
  perSecond: 1_000,
  p50Ms: 20,
  p99Ms: 40,
  allowed: 83,
  allowedPods: { "zone-a": ["a-0", "a-1", "a-2", "a-3", "a-4"] },
  refused: 917,
  errors: 0,
  messages: {},
};

function trialOf<F>(contender: ContenderName, figures: F): Trial<F> {
  return { contender, size: size.label, load: 0, figures, failure: undefined };
}

function reviews(contender: ContenderName, changes: Partial<StepFigures>): Trial<ReviewFigures> {
  const step = { ...effort, ...report, inFlight: 32, durable: 5, ...changes };
  const steps: StepFigures[] = [
    { ...step, kind: "dry run" },
    { ...step, kind: "real" },
  ];
  return trialOf(contender, { steps });
}

/** The cells of every line that begins with this label. */
function cellsOf(text: string, label: string): string[][] {
  return text
    .split("\n")
    .filter((line) => line.trim().startsWith(label))
    .map((line) => line.trim().split(/ {2,}/).slice(1));
}

describe("the table of reviews", () => {
  it("has each step of both kinds, and costs for each review", () => {
    const text = reviewTable(size, ["sluice"], [reviews("sluice", {})], [32]);
    assert.deepEqual(cellsOf(text, "reviews per second"), [["1000"], ["1000"]]);
    assert.deepEqual(cellsOf(text, "allowed, of 100"), [["8.3"], ["8.3"]]);
    assert.deepEqual(cellsOf(text, "CPU for each, ms"), [["2.00"], ["2.00"]]);
    assert.deepEqual(cellsOf(text, "API requests for each"), [["0.50"], ["0.50"]]);
    assert.deepEqual(cellsOf(text, "allowed pods that a Lease holds"), [["5"]]);
    assert.ok(text.indexOf("a Lease holds") > text.indexOf("real, 32 in flight"), "a dry run reserves nothing");
  });

  it("shows how many times as many answers were given as by the peer, by medians", () => {
    const trials = [
      reviews("sluice", { perSecond: 1_500, p99Ms: 30 }),
      reviews("sluice", { perSecond: 900, p99Ms: 50 }),
      reviews("peer-tuned", { perSecond: 100, p99Ms: 400 }),
    ];
    const text = reviewTable(size, ["sluice", "peer-tuned"], trials, [32]);
    assert.match(
      text,
      /real, 32 in flight: sluice answers 12\.0 times as many as peer-tuned, its p99 is 0\.10 of that/,
    );
    assert.doesNotMatch(reviewTable(size, ["sluice"], trials.slice(0, 2), [32]), /times as many/);
  });

  it("marks errors, and real reviews that allowed more than the budget or pods of two zones; dry runs take no budget", () => {
    const all = { "zone-a": Array.from({ length: 6 }, (_, index) => `a-${index}`), "zone-b": ["b-0"] };
    const text = reviewTable(size, ["sluice"], [reviews("sluice", { allowedPods: all, errors: 2 })], [32]);
    assert.deepEqual(cellsOf(text, "errors"), [["! 2"], ["! 2"]]);
    assert.deepEqual(cellsOf(text, "pods of a zone allowed at once"), [["! 6"]]);
    assert.deepEqual(cellsOf(text, "zones allowed at once"), [["! 2"]]);
  });
});

describe("the table of memory", () => {
  it("shows sizes in MB, and growth for 10,000 reviews", () => {
    const figures: MemoryFigures = {
      ...report,
      firstBytes: 90e6,
      tenthBytes: 110e6,
      halfBytes: 111e6,
      lastBytes: 112e6,
      peakBytes: 120e6,
      bytesPerReview: 20,
      samples: [],
    };
    const text = memoryTable(size, ["sluice"], [trialOf("sluice", figures)], 100_000);
    assert.deepEqual(cellsOf(text, "resident at the end, MB"), [["112.0"]]);
    assert.deepEqual(cellsOf(text, "growth in the second half"), [["0.20"]]);
  });
});

describe("the table of forged reviews", () => {
  const figures = (p99Ms: number): ForgedFigures => ({
    alone: { ...report, p99Ms: 8 },
    beside: { ...report, p99Ms },
    forgedPerSecond: 1_200,
    residentBytes: 200e6,
  });

  it("shows how much slower honest reviews are beside them", () => {
    const text = forgedTable(size, ["sluice"], [trialOf("sluice", figures(40))]);
    assert.deepEqual(cellsOf(text, "p99 beside, of that alone"), [["5.00"]]);
    assert.deepEqual(cellsOf(text, "forged reviews answered per second"), [["1200"]]);
  });

  it("marks more than five times", () => {
    const text = forgedTable(size, ["sluice"], [trialOf("sluice", figures(41))]);
    assert.deepEqual(cellsOf(text, "p99 beside, of that alone"), [["! 5.13"]]);
  });
});
