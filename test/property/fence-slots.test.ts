/** No more fences go on at once than there are slots, by two processes that are killed at any write (invariant A4). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "../fake-cluster/random.ts";
import { type DrawnNodes, type RemovedOfSlots, SlotsWorld } from "./fence-slots-world.ts";

const runs = 12;

/** Three to six marked nodes, one in three of them dead. */
function drawnNodes(seed: number): DrawnNodes {
  const random = seededRandom(seed);
  const most = 1 + (seed % 2);
  const resetMs = Array.from({ length: 3 + Math.floor(random() * 4) }, () =>
    random() < 0.33 ? undefined : 1_000 + random() * 120_000,
  );
  return { seed, most, resetMs };
}

async function mostAtOnce(drawn: DrawnNodes, removed: RemovedOfSlots): Promise<number> {
  const world = new SlotsWorld(drawn, removed);
  await world.run();
  return world.mostAtOnce;
}

test("at most so many fences go on at once, those of dead machines for 10 minutes, and one that has ended has no slot", async (context) => {
  let [kills, full, dead] = [0, 0, 0];
  for (let seed = 1; seed <= runs; seed++) {
    const drawn = drawnNodes(seed);
    const world = new SlotsWorld(drawn);
    const { open, slots } = await world.run();
    assert.ok(world.mostAtOnce <= drawn.most, `seed ${seed}: ${world.mostAtOnce} at once, and ${drawn.most} slots`);
    const off = drawn.resetMs.flatMap((resetMs, at) => (resetMs === undefined ? [`node-${at}`] : []));
    const left = slots.filter((node) => !open.includes(node));
    assert.deepEqual(left, [], `seed ${seed}: slots of fences that have ended`);
    if (off.length <= drawn.most) assert.deepEqual(open, off, `seed ${seed}: fences that did not end`);
    kills += world.kills;
    dead += off.length;
    if (world.mostAtOnce === drawn.most) full++;
  }
  context.diagnostic(`${kills} kills, ${dead} dead machines, all slots taken in ${full} of ${runs} runs`);
  assert.ok(kills > runs && dead > runs / 2 && full > runs / 2, `${kills} kills, ${dead} dead, ${full} full`);
});

for (const removed of ["condition", "budget"] as const) {
  test(`without the rule "${removed}" a run of the first ${runs} has more fences at once than slots`, async () => {
    for (let seed = 1; seed <= runs; seed++) {
      const drawn = { seed, most: 1, resetMs: [30_000, 60_000, 60_000, 90_000, 90_000, 120_000] };
      if ((await mostAtOnce(drawn, removed)) > 1) return;
    }
    assert.fail("no run found it");
  });
}
