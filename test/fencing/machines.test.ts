/** What the suites of machines stand on: the oracle, the hardware, and the file that resets. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, constants, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { eventually } from "../controlplane/api.ts";
import { none, read } from "../support/tree.ts";
import { WatchdogHardware } from "./hardware.ts";
import { lineOf, overlapsIn, parseJournal } from "./journal.ts";

const timeoutMs = 30_000;
const watchdogMs = 200;

const written = (pod: string, node: string, bootId: string, times: readonly number[]) =>
  times.map((ms) => lineOf({ pod, uid: "u", node, bootId }, "1", ms)).join("");

test("the oracle finds two nodes that run a pod of one name at one time, and nothing else (A1)", () => {
  const first = written("default/db-0", "node-1", "b1", [100, 120, 140]);
  const overlap = ["A1: default/db-0 ran on node-1 and on node-2 at one time"];
  const second = (...times: number[]) => parseJournal(first + written("default/db-0", "node-2", "b2", times));
  assert.deepEqual(overlapsIn(second(140, 160)), overlap);
  assert.deepEqual(overlapsIn(second(80, 100)), overlap);
  assert.deepEqual(overlapsIn(second(0, 500)), overlap, "also one that was silent meanwhile");
  assert.deepEqual(overlapsIn(second(141, 160)), []);
  assert.deepEqual(overlapsIn(parseJournal(first + written("default/db-1", "node-2", "b2", [120]))), []);
  const again = written("default/db-0", "node-1", "b3", [200]);
  assert.deepEqual(overlapsIn(parseJournal(first + written("default/db-0", "node-2", "b2", [160]) + again)), []);
  const unfinished = `${first}default/db-0 u node-2`;
  assert.equal(parseJournal(unfinished).length, 1);
  assert.throws(() => parseJournal("x\n"));
});

/** A watchdog, a writer in the place of an agent, and how often it has fired. */
function hardwareOf(context: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-watchdog-"));
  const path = join(folder, "watchdog");
  execFileSync("mkfifo", [path]);
  const fired: number[] = [];
  const hardware = new WatchdogHardware(path, watchdogMs, () => fired.push(performance.now()));
  context.after(() => {
    hardware.close();
    rmSync(folder, { recursive: true });
  });
  const open = () => openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  const running = (isRunning: boolean) =>
    eventually(
      `running: ${isRunning}`,
      timeoutMs,
      async () => (hardware.isRunning === isRunning ? true : undefined),
      5,
    );
  return { hardware, fired, open, running };
}

test("opening alone starts the watchdog, which fires once after its time", async (context) => {
  const { fired, open, running } = hardwareOf(context);
  const openedMs = performance.now();
  const writer = open();
  await running(true);
  await running(false);
  closeSync(writer);
  assert.equal(fired.length, 1);
  assert.ok((fired[0] ?? 0) - openedMs >= watchdogMs);
});

test("any byte feeds it, and a close without V leaves it running until it fires", async (context) => {
  const { hardware, fired, open, running } = hardwareOf(context);
  const writer = open();
  await running(true);
  await setTimeout(watchdogMs / 2);
  const fedMs = performance.now();
  writeSync(writer, "V\0");
  closeSync(writer);
  await running(false);
  assert.equal(fired.length, 1);
  assert.equal(hardware.feeds, 2);
  assert.ok((fired[0] ?? 0) - fedMs >= watchdogMs);
});

test("a close after V stops it, and it can be started again", async (context) => {
  const { hardware, fired, open, running } = hardwareOf(context);
  const writer = open();
  writeSync(writer, "\0V");
  closeSync(writer);
  await eventually("two bytes", timeoutMs, async () => (hardware.feeds === 2 ? true : undefined), 5);
  await running(false);
  const next = open();
  await running(true);
  assert.equal(fired.length, 0);
  await running(false);
  assert.equal(fired.length, 1);
  closeSync(next);
});

test("no code of the tests names the file that resets the machine that they run on", () => {
  const trigger = ["sysrq", "trigger"].join("-");
  const naming = read("test/**/*.{ts,sh,yaml,json}").filter(({ text }) => text.includes(trigger));
  none(
    naming.map(({ path }) => path),
    "AGENT_RESET_FILE is a file of the test",
  );
  const giving = read("test/**/*.ts").filter(({ text }) => /AGENT_RESET_FILE"?: (?!\[|this\.#?resetFile)/.test(text));
  none(
    giving.map(({ path }) => path),
    "the machine alone gives it, in its own folder",
  );
});
