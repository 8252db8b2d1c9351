import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { simulate } from "./simulation.ts";

const main = fileURLToPath(new URL("./main.ts", import.meta.url));

function run(...options: string[]) {
  return spawnSync(process.execPath, [main, ...options], { encoding: "utf8" });
}

test("no seed of a first few hundred breaks Z1 to Z4 or L1", async () => {
  let taken = 0;
  for (let seed = 1; seed <= 300; seed++) {
    const result = await simulate(seed);
    assert.deepEqual(result.violations, [], `replay with: npm run simulate -- --seed ${seed}`);
    taken += result.taken;
  }
  assert.ok(taken > 3_000, `only ${taken} deletions: the simulation hardly did anything`);
});

test("the same seed tells the same history, line by line", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const first = await simulate(seed, { verbose: true });
    const second = await simulate(seed, { verbose: true });
    assert.deepEqual(second.history, first.history, `seed ${seed} is not deterministic`);
  }
});

test("a failing seed prints its history and the command that replays it, and exits 1", () => {
  const { status, stdout } = run("--seeds", "200", "--without", "R3", "--workers", "1");
  assert.equal(status, 1);
  assert.match(stdout, /CHECKER\s+Z[12] is violated/);
  assert.match(stdout, /npm run simulate -- --seed \d+ --without R3/);
});

test("a wrong option exits 2 and says which", () => {
  const { status, stderr } = run("--seeds", "none", "--workers", "0", "--without", "R99");
  assert.equal(status, 2);
  assert.equal(stderr.trim().split("\n").length, 3);
  assert.equal(run("--sedes", "3").status, 2);
});
