import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { after, before, test } from "node:test";
import { runQueue } from "./files.ts";
import type { Outcome } from "./outcome.ts";
import { Queue } from "./queue.ts";
import { readTimes, writeTimes } from "./times.ts";

const root = new URL("../..", import.meta.url).pathname;
let folder = "";
let count = 0;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-runner-"));
});
after(() => rm(folder, { recursive: true, force: true }));

/** What comes of a file with that text. */
async function play(text: string): Promise<Outcome> {
  const path = join(folder, `${++count}.test.mjs`);
  await writeFile(path, `import { test, suite } from "node:test";\n${text}`);
  const context = process.env.NODE_TEST_CONTEXT;
  // A runner in a runner would take itself for a file that is run.
  delete process.env.NODE_TEST_CONTEXT;
  try {
    const queue = new Queue([], [relative(root, path)], () => undefined);
    for await (const { outcome } of runQueue(root, queue, 1)) return outcome;
  } finally {
    if (context !== undefined) process.env.NODE_TEST_CONTEXT = context;
  }
  throw new Error("nothing ended");
}

test("passed, skipped and failed tests of a file are counted, those of its suites too", async () => {
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

test("a file fails whose process ends with an error, though each of its tests has passed", async () => {
  const { failures } = await play(`test("one", () => {}); process.on("exit", () => { process.exitCode = 1; });`);
  assert.equal(failures.length, 1);
});

test("a file fails that cannot be read as a program", async () => {
  assert.equal((await play("test(")).failures.length, 1);
});

test("cases of a real API server are told by the name of their suite", async () => {
  const { real } = await play(`suite("on the real API server", () => { test("one", () => {}); });`);
  assert.equal(real, 1);
});

test("times are kept for the next run, and a broken record is as none", async () => {
  const path = join(folder, "deep", "times.json");
  assert.equal(readTimes(path).size, 0);
  writeTimes(path, new Map([["a", 12]]));
  assert.deepEqual([...readTimes(path)], [["a", 12]]);
  for (const text of ["{", "7", "null", '{"a":"12"}']) {
    await writeFile(path, text);
    assert.equal(readTimes(path).size, 0, text);
  }
});
