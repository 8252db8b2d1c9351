import assert from "node:assert/strict";
import { test } from "node:test";
import { FenceModel, type Removal } from "./fence-model.ts";

const runs = 60_000;
const seedOf = (run: number): number => (run * 2_654_435_761) >>> 0;

test("time as evidence of a fence never starts a pod twice, in 60,000 drawn runs", (context) => {
  let evacuations = 0;
  for (let run = 1; run <= runs; run++) {
    const { isBroken, isEvacuated } = new FenceModel(seedOf(run)).run();
    assert.equal(isBroken, false, `run ${run}: the fenced boot ran while its pods started elsewhere`);
    if (isEvacuated) evacuations++;
  }
  context.diagnostic(`${evacuations} evacuations`);
  assert.ok(evacuations > runs / 5, `${evacuations} evacuations of ${runs} runs show little`);
});

const removals: readonly Removal[] = [
  "quorum",
  "known for T",
  "T is L",
  "T is L + W + 2 s",
  "two renewals",
  "any renewal",
  "adopted list",
  "both lists",
  "first success",
];

for (const removal of removals) {
  test(`without the rule "${removal}" the pods of a fenced node run twice within 10,000 drawn runs`, (context) => {
    let run = 1;
    while (run <= 10_000 && !new FenceModel(seedOf(run), removal).run().isBroken) run++;
    context.diagnostic(`found by run ${run}`);
    assert.ok(run <= 10_000, "no run found it");
  });
}
