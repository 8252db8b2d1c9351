import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

const main = join(import.meta.dirname, "main.ts");
const roll = (...args: string[]) => spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });

test("the rolling run requires a checkout of the older version, reports what is wrong with one, and then starts nothing", () => {
  const wrong = [
    [[], /^--against: name a checkout of the older version$/m],
    [["--against", import.meta.dirname], /^--against .+\/rolling: it has no package\.json$/m],
    [["--again", "."], /^--again: no such flag; see --help$/m],
  ] as const;
  for (const [args, mistake] of wrong) {
    const { status, stderr, stdout } = roll(...args);
    assert.deepEqual({ status, stdout }, { status: 2, stdout: "" }, stderr);
    assert.match(stderr, mistake);
  }
  const { status, stdout } = roll("--help");
  assert.equal(status, 0);
  assert.match(stdout, /--against DIR/);
});
