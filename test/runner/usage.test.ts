import assert from "node:assert/strict";
import { test } from "node:test";
import { Usage } from "./usage.ts";

/** Two processors, of which so many are idle in each second. */
function measured(idle: readonly number[]) {
  const at = { atMs: 0, idleMs: 5_000 };
  const usage = new Usage(2, () => ({ ...at }));
  const used = idle.map((processors) => {
    at.atMs += 1_000;
    at.idleMs += processors * 1_000;
    return usage.used();
  });
  return { usage, used };
}

test("what is in use is known once the same files have run for ten seconds, and is that of the last ten", () => {
  const { usage, used } = measured([...Array(10).fill(0.5), ...Array(10).fill(1.5)]);
  assert.deepEqual(used.slice(0, 9), Array(9).fill(undefined));
  assert.equal(used[9], 1.5);
  assert.equal(used[14], 1);
  assert.equal(used[19], 0.5);
  usage.begin();
  assert.equal(usage.used(), undefined, "another file runs");
});
