/** Versions of Sluice side by side, as during its own rollout: no promise breaks, and each version does its work. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { simulate } from "../simulation.ts";
import { besideAll } from "./scenarios.ts";

const happenings = [
  /newer-\d+ +keeps the ledger in a format/,
  /newer-\d+ +leaves the ledger in the format/,
  /newer-\d+ is killed/,
  /later-\d+ +claims all of/,
  /later-\d+ +ends its claim/,
  /later-\d+ is killed/,
  /older-\d+ +verdict zone-claim-unknown .*which this version of Sluice does not know/,
  /older-\d+ +delete pod/,
  /older-webhook-\d+ +evict .*: zone-claim-unknown/,
  /older-webhook-\d+ +evict .*: allowed/,
  /replica-\d+ +verdict ledger-unreadable .*its format is "2"/,
  /webhook-\d+ +evict .*: ledger-unreadable/,
];

test("an older version and two later ones beside this one break no promise, and each does all that it can do", async () => {
  const missing = new Set(happenings);
  for (let seed = 1; seed <= 25; seed++) {
    const { violations, history } = await simulate(seed, { aim: besideAll, verbose: true });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --scenario versions --seed ${seed}`);
    for (const what of missing) if (history.some((line) => what.test(line))) missing.delete(what);
  }
  assert.deepEqual([...missing].map(String), []);
});

test("a later version takes pods by a ledger that this version cannot read, in seeds of the default plan, and breaks no promise", async () => {
  let seeds = 0;
  let taken = 0;
  for (let seed = 1; seed <= 100; seed++) {
    const { violations, history } = await simulate(seed, {
      aim: (plan) => ({
        ...plan,
        budget: undefined,
        minReadySeconds: 0,
        versions: { older: false, laterKind: false, laterFormat: true },
        every: { ...plan.every, loseLedger: 0, editLedger: 0, evict: 0 },
      }),
      verbose: true,
    });
    assert.deepEqual(violations, [], `seed ${seed}`);
    if (history.some((line) => /newer-\d+ +keeps the ledger/.test(line))) seeds++;
    taken += history.filter((line) => /newer-\d+ +takes /.test(line)).length;
  }
  assert.ok(seeds > 50 && taken > 10, `in ${seeds} seeds ${taken} pods`);
});
