import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseScript } from "./contenders.ts";
import { type BenchOptions, contendersOf, readOptions } from "./options.ts";
import { limitMs, parseSize, type Size } from "./sizes.ts";
import { seeded, shuffled, spreadOf } from "./statistics.ts";
import { tableOf } from "./table.ts";
import type { Figures, Trial } from "./trial.ts";
import { parseUsage } from "./usage.ts";

function sizeOf(text: string): Size {
  const size = parseSize(text);
  assert.ok(size, text);
  return size;
}

function optionsOf(...argv: string[]): BenchOptions {
  const reading = readOptions(["rollout", ...argv]);
  assert.equal(reading.kind, "run");
  return reading.kind === "run" ? reading.options : assert.fail();
}

describe("sizes", () => {
  it("have the budgets of the card, or the one that is named", () => {
    assert.deepEqual(sizeOf("3x20"), { label: "3x20", zones: 3, pods: 20, budget: 5 });
    assert.equal(sizeOf("3x1000").budget, 100);
    assert.equal(sizeOf("3x300/50").budget, 50);
    assert.equal(sizeOf("1x1").budget, 1);
  });

  it("are refused where they make no sense", () => {
    for (const text of ["", "3", "3x", "0x20", "27x1", "3x0", "3x20/0", "3x20/21", "3x20000", "3x20/5/5", "-3x20"]) {
      assert.equal(parseSize(text), undefined, text);
    }
  });

  it("have a limit: zones after zones, batches after batches, a second each", () => {
    assert.equal(limitMs(sizeOf("3x20")), 12_000);
    assert.equal(limitMs(sizeOf("3x1000")), 30_000);
    assert.equal(limitMs(sizeOf("3x7/3")), 9_000);
  });
});

describe("statistics", () => {
  it("tell the median and the extremes", () => {
    assert.deepEqual(spreadOf([3]), { median: 3, least: 3, most: 3 });
    assert.deepEqual(spreadOf([10, 9, 2]), { median: 9, least: 2, most: 10 });
    assert.deepEqual(spreadOf([4, 1, 3, 2]), { median: 2.5, least: 1, most: 4 });
    assert.throws(() => spreadOf([]), /no values/);
  });

  it("shuffle alike for the same seed, and keep every item", () => {
    const items = ["a", "b", "c", "d", "e", "f"];
    const orders = [1, 1, 2].map((seed) => shuffled(items, seeded(seed)));
    assert.deepEqual(orders[0], orders[1]);
    assert.notDeepEqual(orders[0], orders[2]);
    assert.deepEqual([...(orders[0] ?? [])].sort(), items);
    const random = seeded(7);
    for (let n = 0; n < 1_000; n++) {
      const value = random();
      assert.ok(value >= 0 && value < 1);
    }
  });
});

describe("options", () => {
  it("have defaults", () => {
    const options = optionsOf();
    assert.deepEqual(
      options.sizes.map(({ label }) => label),
      ["3x20", "3x1000"],
    );
    assert.deepEqual([options.repeat, options.seed, options.gogc], [3, 1, 300]);
    assert.equal(options.json, undefined);
  });

  it("leave the peer as shipped out of long rollouts, unless it is asked for", () => {
    const [small, large] = [sizeOf("3x20"), sizeOf("3x1000")];
    assert.deepEqual(contendersOf(optionsOf(), small), ["sluice", "peer-tuned", "peer-shipped"]);
    assert.deepEqual(contendersOf(optionsOf(), large), ["sluice", "peer-tuned"]);
    assert.deepEqual(contendersOf(optionsOf("--contenders", "peer-shipped"), large), ["peer-shipped"]);
  });

  it("name every mistake", () => {
    const reading = readOptions(["rollout", "--sizes", "3x20,4y4", "--repeat", "0", "--contenders", "other"]);
    assert.equal(reading.kind, "wrong");
    const { mistakes } = reading as Extract<typeof reading, { kind: "wrong" }>;
    assert.equal(mistakes.length, 3);
    assert.match(mistakes.join(" "), /"4y4".*--repeat is "0".*"other"/);
  });

  it("are refused with exit code 2, and help is not", () => {
    const main = join(import.meta.dirname, "main.ts");
    const bench = (...args: string[]) => spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
    for (const args of [[], ["storm"], ["rollout", "--no-such-flag"], ["rollout", "--json="], ["rollout", "twice"]]) {
      const { status, stderr, stdout } = bench(...args);
      assert.equal(status, 2, args.join(" "));
      assert.notEqual(stderr, "");
      assert.equal(stdout, "");
    }
    const { status, stdout } = bench("--help");
    assert.equal(status, 0);
    assert.match(stdout, /--contenders/);
  });
});

describe("the start script", () => {
  it("is cut into what it sets and what it runs", () => {
    assert.deepEqual(parseScript("A=1 B=x=y node --flag=2 main.ts"), {
      assignments: { A: "1", B: "x=y" },
      words: ["node", "--flag=2", "main.ts"],
    });
    assert.throws(() => parseScript("node a.ts && node b.ts"), /needs a shell/);
  });
});

describe("usage", () => {
  it("is read from what Linux prints, whatever the command is called", () => {
    const stat = `7 (a) b (c) S ${Array.from({ length: 10 }, () => "0").join(" ")} 150 25 0 0 20 0`;
    const status = "Name:\tnode\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n";
    assert.deepEqual(parseUsage(stat, status, "rchar: 9000\nwchar: 1\n"), {
      cpuSeconds: 1.75,
      residentBytes: 1_048_576,
      peakResidentBytes: 2_097_152,
      bytesRead: 9_000,
    });
    assert.throws(() => parseUsage(stat, "Name:\tnode\n", "rchar: 1\n"), /VmRSS/);
  });
});

describe("the table", () => {
  const figures: Figures = {
    rolloutMs: 12_600,
    timeOverLimit: 1.05,
    zones: [],
    mostDown: 5,
    mostZonesDown: 1,
    requests: 90,
    watches: 0,
    requestCounts: [{ client: "sluice/", verb: "delete", resource: "pods", requests: 60 }],
    requestsPerPod: 1.5,
    bytesPerPod: 4_000,
    cpuSeconds: 0.25,
    peakResidentBytes: 130e6,
    residentBytes: 120e6,
    controlPlaneCpuSeconds: 3,
    harnessCpuSeconds: 1,
  };
  const trial = (contender: Trial["contender"], changes: Partial<Figures>): Trial => {
    return { contender, size: "3x20", load: 0, figures: { ...figures, ...changes }, failure: undefined };
  };

  it("says medians and extremes side by side, and marks a broken budget", () => {
    const trials = [
      trial("sluice", {}),
      trial("sluice", { timeOverLimit: 1.09 }),
      trial("sluice", { timeOverLimit: 1.2 }),
      trial("peer-tuned", { mostDown: 6, timeOverLimit: 2 }),
      { contender: "peer-tuned", size: "3x20", load: 0, figures: undefined, failure: "it ended" } as const,
    ];
    const lines = tableOf(sizeOf("3x20"), ["sluice", "peer-tuned", "peer-shipped"], trials).split("\n");
    const line = (label: string) =>
      lines
        .find((text) => text.trim().startsWith(label))
        ?.split(/ {2,}/)
        .slice(2);
    assert.match(lines[0] ?? "", /limit is 12 s/);
    assert.deepEqual(line("time / limit"), ["1.09 (1.05–1.20)", "2.00", "–"]);
    assert.deepEqual(line("pods of a zone down at once"), ["5", "! 6", "–"]);
    assert.deepEqual(line("trials that ended"), ["3 of 3", "1 of 2", "0 of 0"]);
    assert.match(lines.at(-2) ?? "", /sluice, first trial, requests per pod: delete pods 1.00/);
  });
});
