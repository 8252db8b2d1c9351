/** The shipped function and agents, in drawn fences among moving partitions, late writes and killed processes (A1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FenceWorld, type RemovedOfFence } from "./fence-world.ts";

const runs = 250;
const seedOf = (run: number): number => (run * 2_654_435_761) >>> 0;

test("no pod of a fenced node starts elsewhere while its boot runs, and each fence ends clean after the partitions", async (context) => {
  let [evacuations, deletions] = [0, 0];
  for (let run = 1; run <= runs; run++) {
    const { isBroken, isClean, isDeleted, evidence } = await new FenceWorld(seedOf(run)).run();
    assert.equal(isBroken, false, `run ${run}: the fenced boot ran while its pods could start elsewhere`);
    assert.equal(isClean, true, `run ${run}: the fence does not end`);
    if (evidence === "time") evacuations++;
    if (isDeleted) deletions++;
  }
  context.diagnostic(`${evacuations} evacuations by time, ${deletions} of them by a deletion of the Node`);
  assert.ok(deletions > runs / 10, `${deletions} deletions of ${runs} runs show little`);
  assert.ok(evacuations > runs / 5, `${evacuations} evacuations of ${runs} runs show little`);
});

const removals: readonly RemovedOfFence[] = ["honest no-api", "quorum", "T"];

for (const removal of removals) {
  test(`without the rule "${removal}" a run of the first 100 shows a fenced boot beside its replacement`, async (context) => {
    let run = 1;
    while (run <= 100 && !(await new FenceWorld(seedOf(run), removal).run()).isBroken) run++;
    context.diagnostic(`found by run ${run}`);
    assert.ok(run <= 100, "no run found it");
  });
}
