/** What the agent does with files: the watchdog, and what it keeps of its boot. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs, {
  closeSync,
  constants,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { BootFile, storedHistory, storedMemory } from "../../../../../functions/fence-node/agent/boot-store.ts";
import { WatchdogDevice } from "../../../../../functions/fence-node/agent/device.ts";
import { importsOf, leadsTo, read } from "../../../../support/tree.ts";
import { armed, bootId } from "./world.ts";

function folderOf(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-agent-"));
  context.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

test("the device is opened, fed and stopped by V, and no byte that feeds it is a V", (context) => {
  const path = join(folderOf(context), "watchdog");
  execFileSync("mkfifo", [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const device = new WatchdogDevice(path, 1_000);
  assert.equal(device.check(), 1_000);
  assert.equal(device.isNoWayOut(), false);
  device.open();
  device.feed();
  device.feed();
  device.disarm();
  const bytes = Buffer.alloc(10);
  const length = readSync(reader, bytes);
  assert.equal(length, 3);
  assert.equal(bytes.subarray(0, length).indexOf("V"), 2);
  assert.equal(readSync(reader, bytes), 0, "it is closed");
  closeSync(reader);
});

test("a plain file and a file that is not there are no watchdog, and none is made", (context) => {
  const folder = folderOf(context);
  writeFileSync(join(folder, "plain"), "");
  assert.equal(new WatchdogDevice(join(folder, "plain"), 1_000).check(), "no-watchdog");
  const gone = new WatchdogDevice(join(folder, "gone"), 1_000);
  assert.equal(gone.check(), "no-watchdog");
  assert.throws(() => gone.open(), { code: "ENOENT" });
});

test("a device whose time nothing says is not used", (context) => {
  const path = join(folderOf(context), "watchdog");
  execFileSync("mkfifo", [path]);
  assert.equal(new WatchdogDevice(path, undefined).check(), "watchdog-time-unknown");
});

test("a full device refuses each byte, and one of which sysfs knows no time has the time that is set", () => {
  assert.equal(new WatchdogDevice("/dev/full", undefined).check(), "watchdog-time-unknown");
  const device = new WatchdogDevice("/dev/full", 1_000);
  assert.equal(device.check(), 1_000);
  device.open();
  assert.throws(() => device.feed(), { code: "ENOSPC" });
  assert.throws(() => device.disarm(), { code: "ENOSPC" });
});

test("an agent does not wait for the reader of a FIFO", (context) => {
  const path = join(folderOf(context), "watchdog");
  execFileSync("mkfifo", [path]);
  assert.throws(() => new WatchdogDevice(path, 1_000).open(), { code: "ENXIO" });
});

test("what an agent has written of its boot is read again", (context) => {
  const path = join(folderOf(context), "run", "agent.json");
  const lists = { peers: "", wantedPeers: `b=${"0".repeat(16)}`, publicKey: "p", secret: "s" };
  const acknowledged = { isArmed: true, storedTimes: { permitMs: 3, watchdogMs: 5, freshMs: 4 } };
  const started = { permitMs: 1, renewals: 2, armed, isTainted: true, isDeviceStarted: true };
  const memory = { bootId, ...started, ...acknowledged, ...lists };
  new BootFile(path, storedMemory, assert.fail).write(memory);
  assert.deepEqual(new BootFile(path, storedMemory, assert.fail).read(), memory);
  assert.deepEqual(JSON.parse(readFileSync(path, "utf8")), memory);
});

test("no file, rubbish and values of another type are nothing, and the log says so unless there is no file", (context) => {
  const path = join(folderOf(context), "agent.json");
  assert.equal(new BootFile(path, storedMemory, assert.fail).read(), undefined);
  for (const text of [
    "",
    "x",
    "[]",
    "{}",
    "\0",
    `{"bootId":"${bootId}","permitMs":"1"}`,
    `{"bootId":1}`,
    `{"bootId":"b","storedTimes":1}`,
    `{"bootId":"b","storedTimes":{"permitMs":"1"}}`,
  ]) {
    writeFileSync(path, text);
    const logged: string[] = [];
    assert.equal(new BootFile(path, storedMemory, (_level, message) => logged.push(message)).read(), undefined, text);
    assert.equal(logged.length, 1);
  }
});

test("what a boot leaves to the next one is read again, and rubbish is nothing", (context) => {
  const path = join(folderOf(context), "state", "agent.json");
  const history = { bootId, shortBoots: 2, state: "running" } as const;
  new BootFile(path, storedHistory, assert.fail).write(history);
  assert.deepEqual(new BootFile(path, storedHistory, assert.fail).read(), history);
  for (const wrong of [
    { ...history, state: "x" },
    { ...history, shortBoots: -1 },
    { bootId, state: "running" },
  ]) {
    writeFileSync(path, JSON.stringify(wrong));
    assert.equal(new BootFile(path, storedHistory, () => {}).read(), undefined, JSON.stringify(wrong));
  }
});

test("what has to outlast a reset is flushed, with the folder that has its new name, and nothing else is", (context) => {
  const path = join(folderOf(context), "agent.json");
  const flushed = context.mock.method(fs, "fsyncSync");
  syncBuiltinESMExports();
  context.after(() => {
    flushed.mock.restore();
    syncBuiltinESMExports();
  });
  const file = new BootFile(path, storedHistory, assert.fail);
  const history = { bootId, shortBoots: 0, state: "running" } as const;
  file.write(history);
  assert.equal(flushed.mock.callCount(), 0);
  file.write(history, true);
  assert.equal(flushed.mock.callCount(), 2);
});

test("a folder that cannot be written is logged once", (context) => {
  const path = join(folderOf(context), "agent.json");
  mkdirSync(`${path}.new`);
  const logged: string[] = [];
  const file = new BootFile(path, storedMemory, (_level, message) => logged.push(message));
  file.write({ bootId });
  file.write({ bootId });
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? "", /cannot be written: EISDIR/);
});

test("the process of the agent loads modules of Node and files of the tree, and nothing else", () => {
  const all = new Map(read("functions/**/*.ts").map((source) => [source.path, source]));
  const loaded = new Set<string>();
  const packages: string[] = [];
  const walk = (path: string): void => {
    const source = all.get(path);
    assert.ok(source, path);
    if (loaded.has(path)) return;
    loaded.add(path);
    const text = source.text.replace(/^import type [^;]*;$/gms, "");
    for (const specifier of importsOf({ path, text })) {
      const to = leadsTo(source, specifier);
      if (to !== undefined) walk(to);
      else if (!specifier.startsWith("node:")) packages.push(`${path}: ${specifier}`);
    }
  };
  walk("functions/fence-node/agent/main.ts");
  assert.deepEqual(packages, []);
  assert.ok([...loaded].filter((path) => dirname(path) === "functions/fence-node/agent").length > 6);
  assert.ok(!loaded.has("functions/shared/annotations/table.ts"), "the whole table would be most of its memory");
});
