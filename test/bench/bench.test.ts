import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseScript, startScriptOf } from "../support/start-script.ts";
import { evictionContenders } from "./eviction/eviction.ts";
import { type EvictionOptions, type RolloutOptions, readOptions } from "./options.ts";
import { type Replacement, replacementTable } from "./replacement.ts";
import { contendersOf } from "./rollout.ts";
import { scalingContenders } from "./scaling/scaling.ts";
import { describeSize, limitMs, parseSize, podsOf, type Size } from "./sizes.ts";
import { seeded, shuffled, spreadOf } from "./statistics.ts";
import { compare, type Row } from "./table.ts";
import type { Trial } from "./trial.ts";
import { parseUsage, usageOf } from "./usage.ts";

function sizeOf(text: string): Size {
  const size = parseSize(text);
  assert.ok(size, text);
  return size;
}

function optionsOf(...argv: string[]): RolloutOptions {
  const reading = readOptions(["rollout", ...argv]);
  return reading.kind === "rollout" ? reading.options : assert.fail(JSON.stringify(reading));
}

function evictionOptionsOf(...argv: string[]): EvictionOptions {
  const reading = readOptions(["eviction", ...argv]);
  return reading.kind === "eviction" ? reading.options : assert.fail(JSON.stringify(reading));
}

function mistakesOf(...argv: string[]): readonly string[] {
  const reading = readOptions(argv);
  return reading.kind === "wrong" ? reading.mistakes : assert.fail(JSON.stringify(reading));
}

describe("sizes", () => {
  it("have the usual budgets, or the given one", () => {
    assert.deepEqual(sizeOf("3x20"), { label: "3x20", zones: 3, pods: 20, budget: 5 });
    assert.equal(sizeOf("3x1000").budget, 100);
    assert.equal(sizeOf("3x300/50").budget, 50);
    assert.equal(sizeOf("1x1").budget, 1);
  });

  it("are refused if they make no sense", () => {
    for (const text of ["", "3", "3x", "0x20", "27x1", "3x0", "3x20/0", "3x20/21", "3x20000", "3x20/5/5", "-3x20"]) {
      assert.equal(parseSize(text), undefined, text);
    }
  });

  it("have a limit: zone after zone and batch after batch, a second each", () => {
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

  it("have the API server limit requests only on request", () => {
    assert.deepEqual([optionsOf().fairness, optionsOf("--fairness").fairness], [false, true]);
    assert.match(mistakesOf("cold-start", "--fairness").join(" "), /--fairness is no flag of cold-start/);
  });

  it("of rollouts may have many groups of a size at once", () => {
    const [size] = optionsOf("--sizes", "3x20", "--groups", "100").sizes;
    assert.deepEqual(size, { label: "100 of 3x20", zones: 3, pods: 20, budget: 5, groups: 100 });
    assert.equal(podsOf(size), 6_000);
    assert.equal(limitMs(size), 12_000, "they are rolled beside each other");
    assert.match(describeSize(size), /^100 groups at once, each of 3 zones of 20 pods/);
    assert.deepEqual(mistakesOf("drain", "--groups=2"), ["--groups is a flag of rollout alone; leave it out"]);
    assert.match(mistakesOf("rollout", "--groups=0").join(" "), /--groups is "0"; write an integer from 1 to 1000/);
  });

  it("leave the peer as shipped out of long rollouts by default", () => {
    const [small, large] = [sizeOf("3x20"), sizeOf("3x1000")];
    assert.deepEqual(contendersOf(optionsOf(), small), ["sluice", "peer-tuned", "peer-shipped"]);
    assert.deepEqual(contendersOf(optionsOf(), large), ["sluice", "peer-tuned"]);
    assert.deepEqual(contendersOf(optionsOf("--contenders", "peer-shipped"), large), ["peer-shipped"]);
  });

  it("of evictions have all parts and four steps by default, and can be reduced", () => {
    const { sizes, parts, inFlight, seconds, reviews } = evictionOptionsOf();
    assert.deepEqual(
      sizes.map(({ label, budget }) => [label, budget]),
      [["3x20", 5]],
    );
    assert.deepEqual(parts, ["reviews", "storm", "parked", "memory", "forged"]);
    assert.deepEqual([inFlight, seconds, reviews], [[1, 8, 32, 128], 5, 100_000]);
    const few = evictionOptionsOf("--only", "storm,storm", "--in-flight", "4, 2", "--seconds=9", "--reviews=1000");
    assert.deepEqual([few.parts, few.inFlight, few.seconds, few.reviews], [["storm"], [4, 2], 9, 1_000]);
  });

  it("of scaling have both parts by default, and can be reduced", () => {
    const scalingOptionsOf = (...argv: string[]) => {
      const reading = readOptions(["scaling", ...argv]);
      return reading.kind === "scaling" ? reading.options : assert.fail(JSON.stringify(reading));
    };
    const { sizes, parts } = scalingOptionsOf();
    assert.deepEqual([sizes.map(({ label }) => label), parts], [["3x20"], ["lower", "follow"]]);
    assert.deepEqual(scalingOptionsOf("--only", "follow").parts, ["follow"]);
    assert.deepEqual(scalingContenders(scalingOptionsOf()), ["sluice", "peer-tuned"]);
    assert.deepEqual(mistakesOf("scaling", "--only", "storm").length, 1);
  });

  it("have the peer take part in everything but memory by default", () => {
    assert.deepEqual(evictionContenders(evictionOptionsOf(), "reviews"), ["sluice", "peer-tuned"]);
    assert.deepEqual(evictionContenders(evictionOptionsOf(), "storm"), ["sluice", "peer-tuned", "oracle"]);
    assert.deepEqual(evictionContenders(evictionOptionsOf(), "memory"), ["sluice"]);
    assert.deepEqual(evictionContenders(evictionOptionsOf("--contenders", "peer-tuned"), "memory"), ["peer-tuned"]);
  });

  it("have the oracle take part in the storm alone", () => {
    const options = evictionOptionsOf("--contenders", "sluice,oracle");
    assert.deepEqual(evictionContenders(options, "storm"), ["sluice", "oracle"]);
    assert.deepEqual(evictionContenders(options, "reviews"), ["sluice"]);
    assert.match(
      mistakesOf("rollout", "--contenders", "oracle").join(" "),
      /oracle, which is there for the part storm/,
    );
  });

  it("have another checkout of Sluice take part once --against names it, whichever contenders do", () => {
    const checkout = join(import.meta.dirname, "../..");
    const flags = ["--against", checkout, "--contenders", "sluice"];
    assert.equal(optionsOf(...flags).against, checkout);
    assert.deepEqual(contendersOf(optionsOf(...flags), sizeOf("3x20")), ["sluice", "sluice-against"]);
    assert.equal(contendersOf(optionsOf("--against", checkout), sizeOf("3x1000")).at(-1), "sluice-against");
    for (const part of ["reviews", "storm", "memory", "forged"] as const) {
      assert.deepEqual(evictionContenders(evictionOptionsOf(...flags), part), ["sluice", "sluice-against"]);
    }
  });

  it("refuse a folder that is no startable checkout of Sluice, and say what it lacks", () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
    try {
      const refusal = () => mistakesOf("eviction", "--against", folder).join(" ");
      assert.match(refusal(), /^--against is ".*", which is no checkout of Sluice: it has no package\.json$/);
      const manifest = (text: string) => writeFileSync(join(folder, "package.json"), text);
      manifest("{");
      assert.match(refusal(), /: its package\.json is not JSON$/);
      manifest('{"name": "other", "scripts": {"start": "node a.ts"}}');
      assert.match(refusal(), /: its package\.json is not Sluice's$/);
      manifest('{"name": "sluice"}');
      assert.match(refusal(), /: its package\.json has no script start$/);
      manifest('{"name": "sluice", "scripts": {"start": "node a.ts"}}');
      assert.match(refusal(), /: it has no node_modules; run npm ci there$/);
    } finally {
      rmSync(folder, { recursive: true });
    }
    assert.match(
      mistakesOf("cold-start", "--against", ".").join(" "),
      /--against is a flag of rollout, eviction and scaling/,
    );
  });

  it("name every mistake", () => {
    const rollout = mistakesOf("rollout", "--sizes", "3x20,4y4", "--repeat", "0", "--contenders", "other");
    assert.equal(rollout.length, 3);
    assert.match(rollout.join(" "), /"4y4".*--repeat is "0".*"other"/);
    const eviction = mistakesOf(
      "eviction",
      "--only",
      "drain",
      "--in-flight",
      "8,0",
      "--seconds",
      "61",
      "--reviews",
      "x",
    );
    assert.equal(eviction.length, 4);
    assert.match(eviction.join(" "), /"drain".*--in-flight is "0".*--seconds is "61".*--reviews is "x"/);
  });

  it("of evictions are refused for rollouts", () => {
    assert.deepEqual(mistakesOf("rollout", "--seconds", "5"), ["--seconds is a flag of eviction alone; leave it out"]);
    assert.deepEqual(mistakesOf("scaling", "--reviews=1000"), ["--reviews is a flag of eviction alone; leave it out"]);
    assert.deepEqual(mistakesOf("rollout", "--only", "storm"), [
      "--only is a flag of eviction, faults, scaling, status and fence; leave it out",
    ]);
    assert.equal(mistakesOf("rollout", "--only=storm", "--in-flight=1", "--reviews=1000").length, 3);
  });

  it("are refused with exit code 2, and help is not", () => {
    const main = join(import.meta.dirname, "main.ts");
    const bench = (...args: string[]) => spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
    const wrong = [
      ["rollout", "--no-such-flag"],
      ["rollout", "--json="],
      ["rollout", "twice"],
      ["eviction", "--only="],
      ["eviction", "--against", tmpdir()],
    ];
    for (const args of [[], ["storm"], ...wrong]) {
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
  it("is that of the checkout, whatever its layout", () => {
    assert.equal(startScriptOf(join(import.meta.dirname, "../..")).words.at(-1), "triggers/main.ts");
  });

  it("is cut into what it sets and what it runs", () => {
    assert.deepEqual(parseScript("A=1 B=x=y node --flag=2 main.ts"), {
      assignments: { A: "1", B: "x=y" },
      words: ["node", "--flag=2", "main.ts"],
    });
    assert.throws(() => parseScript("node a.ts && node b.ts"), /needs a shell/);
  });
});

describe("usage", () => {
  it("is read from the files of Linux, whatever the name of the command", () => {
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

  it("gives CPU time finer than the kernel's ticks, threads and all", async () => {
    const { user, system } = process.cpuUsage();
    const { cpuSeconds } = await usageOf(process.pid);
    assert.ok(Math.abs(cpuSeconds - (user + system) / 1e6) < 0.1, `${cpuSeconds} s`);
    assert.notEqual(cpuSeconds, Math.round(cpuSeconds * 100) / 100);
  });
});

describe("the table", () => {
  const figures: Replacement = {
    tookMs: 12_600,
    timeOverLimit: 1.05,
    zones: [],
    mostDown: 5,
    mostZonesDown: 1,
    requests: 90,
    watches: 0,
    requestCounts: [{ client: "sluice/", verb: "delete", resource: "pods", requests: 60 }],
    requestsPerPod: 1.5,
    bytesRead: 240_000,
    bytesPerPod: 4_000,
    cpuSeconds: 0.25,
    peakResidentBytes: 130e6,
    residentBytes: 120e6,
    controlPlaneCpuSeconds: 3,
    harnessCpuSeconds: 1,
  };
  const trial = (contender: Trial<Replacement>["contender"], changes: Partial<Replacement>): Trial<Replacement> => {
    return { contender, size: "3x20", load: 0, figures: { ...figures, ...changes }, failure: undefined };
  };
  const failed: Trial<Replacement> = { ...trial("peer-tuned", {}), figures: undefined, failure: "it ended" };
  const cellsOf = (lines: readonly string[], label: string) =>
    lines
      .find((text) => text.trim().startsWith(label))
      ?.trim()
      .split(/ {2,}/)
      .slice(1);

  it("shows medians and extremes side by side, and marks a broken budget", () => {
    const trials = [
      trial("sluice", {}),
      trial("sluice", { timeOverLimit: 1.09 }),
      trial("sluice", { timeOverLimit: 1.2 }),
      trial("peer-tuned", { mostDown: 6, timeOverLimit: 2 }),
      failed,
    ];
    const lines = replacementTable(sizeOf("3x20"), ["sluice", "peer-tuned", "peer-shipped"], trials).split("\n");
    assert.match(lines[0] ?? "", /limit is 12 s/);
    assert.deepEqual(cellsOf(lines, "time / limit"), ["1.09 (1.05–1.20)", "2.00", "–"]);
    assert.deepEqual(cellsOf(lines, "pods of a zone down at once"), ["5", "! 6", "–"]);
    assert.deepEqual(cellsOf(lines, "trials that ended"), ["3 of 3", "1 of 2", "0 of 0"]);
    assert.match(lines.at(-2) ?? "", /sluice, first trial, requests per pod: delete pods 1.00/);
  });

  it("shows this Sluice's figures relative to another's, round by round, and nothing if one has none", () => {
    const trials = [
      trial("sluice", { timeOverLimit: 1.1, requestsPerPod: 2, mostDown: 5 }),
      trial("sluice-against", { timeOverLimit: 1, requestsPerPod: 1, mostDown: 0 }),
      trial("sluice-against", { timeOverLimit: 2, requestsPerPod: 1 }),
      trial("sluice", { timeOverLimit: 1, requestsPerPod: 4 }),
      { ...trial("sluice", {}), figures: undefined, failure: "it ended" },
      trial("sluice-against", { timeOverLimit: 9 }),
      trial("sluice", { timeOverLimit: 1, requestsPerPod: 3 }),
      trial("sluice-against", { timeOverLimit: 1, requestsPerPod: 1 }),
    ];
    const contenders = ["sluice", "sluice-against"] as const;
    const rows: Row<Replacement>[] = [
      { label: "time", value: ({ timeOverLimit }) => timeOverLimit, digits: 1 },
      { label: "requests", value: ({ requestsPerPod }) => requestsPerPod, digits: 0 },
      { label: "watches", value: ({ watches }) => watches, digits: 0 },
    ];
    const lines = compare(rows, contenders, trials);
    assert.deepEqual(lines[0]?.trim().split(/ {2,}/), ["sluice", "sluice-against", "sluice / sluice-against"]);
    assert.deepEqual(cellsOf(lines, "time"), ["1.0 (1.0–1.1)", "1.5 (1.0–9.0)", "1.00 (0.50–1.10)"]);
    assert.equal(cellsOf(lines, "requests")?.[2], "3.00 (2.00–4.00)");
    assert.equal(cellsOf(lines, "watches")?.[2], "–");
    assert.equal(compare(rows, ["sluice"], trials)[0]?.trim(), "sluice");
  });

  it("leaves a heading alone, and has a dash if a trial has no figure", () => {
    const rows = [{ heading: "of some" }, { label: "thing", digits: 0, value: () => undefined }];
    const lines = compare(rows, ["sluice"], [trial("sluice", {})]);
    assert.deepEqual(
      lines.map((line) => line.trim()),
      ["sluice", "of some", "thing              –", "trials that ended  1 of 1"],
    );
  });
});
