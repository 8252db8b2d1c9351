/**
 * The shipped function and agents, in drawn fences among moving partitions, late writes and killed processes (A1, A2, A3, A5, A6,
 * A7).
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { removableRules } from "./fence-removals.ts";
import { findBroken } from "./fences.ts";

const runs = 250;
const main = fileURLToPath(new URL("./fences.ts", import.meta.url));

test("drawn fences break no promise (A1, A2, A3, A5, A6, A7), and each ends after the partitions", async (context) => {
  const { run, broken, evacuations, deletions, kills } = await findBroken({ first: 1, count: runs });
  assert.equal(broken, undefined, `to see it again: npx node test/property/fences.ts --runs 1 --run ${run}`);
  context.diagnostic(`${evacuations} evacuations by time, ${deletions} Nodes deleted, ${kills} kills`);
  assert.ok(deletions > runs / 10, `${deletions} deletions of ${runs} runs show little`);
  assert.ok(evacuations > runs / 5, `${evacuations} evacuations of ${runs} runs show little`);
  assert.ok(kills > runs / 4, `${kills} kills in ${runs} runs show little`);
});

for (const rule of removableRules) {
  test(`without the rule ${rule} a run of the first 100 breaks a promise`, async (context) => {
    const { run, broken } = await findBroken({ first: 1, count: 100 }, rule);
    context.diagnostic(`run ${run} breaks ${broken}`);
    assert.notEqual(run, undefined, "no run notices it");
  });
}

test("the command refuses a wrong option with code 2, and names what it takes", () => {
  const wrong: readonly (readonly [readonly string[], RegExp])[] = [
    [["--without", "A-none"], /must be each, A-evidence, A-quorum/],
    [["--runs", "0"], /--runs is "0", and must be a whole number above 0/],
    [["--sedes", "3"], /'--sedes'/],
  ];
  for (const [options, message] of wrong) {
    const { status, stderr } = spawnSync(process.execPath, [main, ...options], { encoding: "utf8" });
    assert.equal(status, 2);
    assert.match(stderr, message);
  }
});
