import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { after, before, test } from "node:test";
import type { TestEvent } from "node:test/reporters";
import { costAfter, readCosts, writeCosts, writeTable } from "./costs.ts";
import { type Ended, runQueue } from "./files.ts";
import type { Outcome } from "./outcome.ts";
import { Queue } from "./queue.ts";

const root = new URL("../..", import.meta.url).pathname;
let folder = "";
let count = 0;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-runner-"));
});
after(() => rm(folder, { recursive: true, force: true }));

/** How files with these texts end, which one process runs with these flags for Node and these variables. */
async function playJob(
  texts: readonly string[],
  flags: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const files = [];
  for (const text of texts) {
    const path = join(folder, `${++count}.test.mjs`);
    await writeFile(path, `import { test, suite } from "node:test";\n${text}`);
    files.push(relative(root, path));
  }
  const queue = new Queue([{ file: "batch", share: 1, tookMs: undefined }], 1);
  const jobs = new Map([["batch", { name: "batch", files, flags, env }]]);
  return withoutContext(async () => {
    for await (const ended of runQueue(root, queue, jobs)) return ended;
    throw new Error("nothing ended");
  });
}

async function withoutContext<T>(work: () => Promise<T>): Promise<T> {
  const context = process.env.NODE_TEST_CONTEXT;
  // With this variable the inner runner would behave as a test file.
  delete process.env.NODE_TEST_CONTEXT;
  try {
    return await work();
  } finally {
    if (context !== undefined) process.env.NODE_TEST_CONTEXT = context;
  }
}

async function playBatch(...job: Parameters<typeof playJob>): Promise<readonly Outcome[]> {
  return (await playJob(...job)).outcomes;
}

async function playEvents(texts: readonly string[]): Promise<readonly TestEvent[]> {
  return (await playJob(texts)).events;
}

/** The outcome of a file with this text. */
async function play(text: string): Promise<Outcome> {
  const [outcome] = await playBatch([text]);
  assert.ok(outcome);
  return outcome;
}

test("passed, skipped and failed tests of a file are counted, including those of its suites", async () => {
  const text = `
    test("one", () => {});
    test("two", { skip: true }, () => {});
    suite("more", () => {
      test("three", () => {});
      test("four", () => { throw new Error("no"); });
    });`;
  const { passed, skipped, failures, real, tookMs } = await play(text);
  assert.deepEqual([passed, skipped, failures, real], [2, 1, ["four"], 0]);
  assert.ok(tookMs > 0);
});

test("the first line of a failed test's error stands below its name", async () => {
  const text = `test("one", () => { throw new Error("no such pod\\nat all"); });`;
  const lines = (await playEvents([text])).map(({ type, data }) => [
    type,
    data !== undefined && "message" in data ? data.message : "",
  ]);
  const failed = lines.findIndex(([type]) => type === "test:fail");
  assert.deepEqual(lines[failed + 1], ["test:diagnostic", "no such pod"]);
});

test("a file whose process ends with an error fails, even if all of its tests have passed", async () => {
  const { failures } = await play(`test("one", () => {}); process.on("exit", () => { process.exitCode = 1; });`);
  assert.equal(failures.length, 1);
});

test("a file that does not parse fails", async () => {
  assert.equal((await play("test(")).failures.length, 1);
});

test("cases of a real API server are recognised by the name of their suite", async () => {
  const { real } = await play(`suite("on the real API server", () => { test("one", () => {}); });`);
  assert.equal(real, 1);
});

test("the processor time of a file and of the processes that it has ended is measured", async () => {
  const text = `import { execFileSync } from "node:child_process";
    const work = "const end = process.cpuUsage().user + 300_000; while (process.cpuUsage().user < end);";
    test("a child works", () => { execFileSync(process.execPath, ["-e", work]); });`;
  const { cpuMs = 0, tookMs } = await play(text);
  assert.ok(cpuMs >= 300, `${cpuMs} ms`);
  assert.ok(cpuMs < tookMs * 2, `${cpuMs} of ${tookMs} ms`);
});

test("files of a batch run in one process, and each has an outcome of its own", async () => {
  const texts = [
    `test("one", () => {}); globalThis.first = process.pid;`,
    `test("two", () => { if (globalThis.first !== process.pid) throw new Error("two processes"); });
     test("three", () => { throw new Error("no"); });`,
  ];
  const [first, second, ...others] = await playBatch(texts);
  assert.deepEqual([first?.passed, first?.failures], [1, []]);
  assert.deepEqual([second?.passed, second?.failures], [1, ["three"]]);
  assert.deepEqual(others, []);
});

test("a batch runs with its flags for Node, and even without stacks a failed test is assigned to its file", async () => {
  const texts = [
    `test("one", () => { if (Error.stackTraceLimit !== 0) throw new Error("stacks are made"); });`,
    `test("two", () => { throw new Error("no"); });`,
  ];
  const [first, second] = await playBatch(texts, ["--stack-trace-limit=0"]);
  assert.deepEqual([first?.passed, first?.failures], [1, []]);
  assert.deepEqual([second?.passed, second?.failures], [0, ["two"]]);
});

test("if node:test follows no promises, tests are still told apart, and an uncaught error still fails the file", async () => {
  const path = join(folder, "untracked.test.mjs");
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const statusOf = async (text: string, ...flags: readonly string[]) => {
    await writeFile(path, `import { test } from "node:test";\n${text}`);
    return spawnSync(process.execPath, [...flags, path], { cwd: root, env }).status;
  };
  const untracked = "--import=./test/runner/untracked.ts";
  const followed = `import { executionAsyncId } from "node:async_hooks";
    const idLater = () => Promise.resolve().then(executionAsyncId);
    test("one", async () => { if ((await idLater()) !== (await idLater())) throw new Error("they are followed"); });
    test("two", async (context) => { await null; await context.test("three", () => {}); });`;
  assert.deepEqual([await statusOf(followed), await statusOf(followed, untracked)], [1, 0]);
  const uncaught = `test("one", async () => { void Promise.reject(new Error("no")); }); test("two", () => {});`;
  assert.equal(await statusOf(uncaught, untracked), 1);
});

test("a file with watchdogs, and what it starts, is scheduled before others; where that is refused, it says so and runs", () => {
  const policyOf = `const { readFileSync } = await import("node:fs");
    const policy = (pid) => readFileSync("/proc/" + pid + "/stat", "utf8").split(") ")[1].split(" ")[38];
    const { spawn } = await import("node:child_process");
    const child = spawn(process.execPath, ["--eval", "setTimeout(() => {}, 60_000)"]);
    console.log(policy("self"), policy(child.pid));
    child.kill();`;
  const flags = ["--import=./test/runner/undelayed.ts", "--input-type=module", "--eval", policyOf];
  const play = (PATH: string | undefined) =>
    spawnSync(process.execPath, flags, { cwd: root, env: { ...process.env, PATH }, encoding: "utf8" });
  const before = play(process.env.PATH);
  const [others, roundRobin] = ["0 0", "2 2"];
  if (before.stderr === "") assert.equal(before.stdout.trim(), roundRobin);
  // A user other than root may not do this, nor root in some containers.
  else assert.match(before.stderr, /waits for the processor like the others: .*(not permitted|ENOENT)/);
  const like = play(join(folder, "without-chrt"));
  assert.match(like.stderr, /waits for the processor like the others: spawnSync chrt ENOENT/);
  assert.deepEqual([like.status, like.stdout.trim()], [0, others]);
});

test("a file runs with the variables of its job, and its outcome has the name of the job", async () => {
  const text = `test("one", () => { if (process.env.SOME_CHOICE !== "other") throw new Error("not told"); });`;
  const [outcome] = await playBatch([text], [], { SOME_CHOICE: "other" });
  assert.deepEqual([outcome?.file, outcome?.passed], ["batch", 1]);
});

test("a file begins beside one that turns out to use less than its share", async () => {
  const begun = join(folder, "begun");
  const waits = `import { existsSync } from "node:fs";
    test("one", async () => {
      while (!existsSync(${JSON.stringify(begun)})) await new Promise((resolve) => setTimeout(resolve, 20));
    });`;
  const begins = `import { writeFileSync } from "node:fs";
    test("two", () => writeFileSync(${JSON.stringify(begun)}, ""));`;
  const names = ["waits.test.mjs", "begins.test.mjs"].map((name) => relative(root, join(folder, name)));
  for (const [index, text] of [waits, begins].entries())
    await writeFile(join(root, names[index] ?? ""), `import { test } from "node:test";\n${text}`);
  const waiting = names.map((file, index) => ({ file, share: index === 0 ? 0.9 : 0.2, tookMs: 2 - index }));
  const measured = [undefined, undefined, 0.1];
  const usage = { begin: () => {}, used: () => measured.shift() };
  const passed: number[] = [];
  await withoutContext(async () => {
    for await (const { outcomes } of runQueue(root, new Queue(waiting, 1), new Map(), usage))
      passed.push(...outcomes.map((outcome) => outcome.passed));
  });
  assert.deepEqual(passed, [1, 1]);
});

test("a batch with a file that cannot be loaded fails", async () => {
  const outcomes = await playBatch([`test("one", () => {});`, "test("]);
  assert.equal(outcomes.flatMap(({ failures }) => failures).length, 1);
});

test("costs are kept for the next run, and a broken record counts as missing", async () => {
  const path = join(folder, "deep", "costs.json");
  assert.equal(readCosts(path).size, 0);
  const costs = new Map([
    ["a", { tookMs: 12, share: 0.5 }],
    ["b", { tookMs: 3, share: undefined }],
  ]);
  writeCosts(path, costs);
  assert.deepEqual(
    [...readCosts(path)].map(([file, { tookMs, share }]) => [file, { tookMs, share }]),
    [...costs],
  );
  for (const text of ["{", "7", "null", '{"a":12}', '{"a":{"tookMs":"12"}}', '{"a":null}']) {
    await writeFile(path, text);
    assert.equal(readCosts(path).size, 0, text);
  }
});

test("the largest share of a file is kept, and its last duration", () => {
  const first = costAfter(undefined, 1_000, 500);
  assert.deepEqual(first, { tookMs: 1_000, share: 0.5 });
  assert.deepEqual(costAfter(first, 2_000, 500), { tookMs: 2_000, share: 0.5 });
  assert.deepEqual(costAfter(first, 1_000, 800), { tookMs: 1_000, share: 0.8 });
  assert.deepEqual(costAfter(undefined, 1_000, undefined), { tookMs: 1_000, share: undefined });
});

test("the table for new machines names only existing files, and has the long ones", () => {
  const table = readCosts(join(root, "test/runner/costs.json"));
  assert.deepEqual(
    [...table.keys()].filter((file) => !existsSync(join(root, file.replace(/ on the \w+ Kubernetes$/, "")))),
    [],
    "`npm test -- --costs` writes the table anew",
  );
  for (const file of ["test/simulation/simulation.test.ts", "test/knative/rollout.test.ts"])
    assert.ok((table.get(file)?.tookMs ?? 0) > 60_000, file);
});

test("the table has the files that take a while, rounded and in order, and no removed file", async () => {
  const path = join(folder, "table.json");
  const costs = new Map([
    ["b", { tookMs: 12_345.6, share: 0.4567 }],
    ["a", { tookMs: 1_000, share: undefined }],
    ["quick", { tookMs: 999, share: 1 }],
    ["gone", { tookMs: 5_000, share: 1 }],
  ]);
  writeTable(path, costs, new Set(["a", "b", "quick"]));
  const lines = ['  "a": { "tookMs": 1000 }', '  "b": { "tookMs": 12300, "share": 0.46 }'];
  assert.equal(await readFile(path, "utf8"), `{\n${lines.join(",\n")}\n}\n`);
  assert.deepEqual([...readCosts(path).keys()], ["a", "b"]);
});
