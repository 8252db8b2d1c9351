/** Sluice beside rollout-operator, in the simulation: no promise breaks, everything does happen, and Sluice acts afterwards. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { simulate } from "../simulation.ts";
import { standing } from "./scenarios.ts";

const happenings = [
  /operator +comes in db/,
  /operator +comes in elsewhere/,
  /operator +is deleted in/,
  /operator +is ended in/,
  /operator +is swapped in/,
  /operator +is patched in/,
  /operator +is restarted in/,
  /api-server +refuses LISTs of the operator's pods with 0 /,
  /api-server +refuses LISTs of the operator's pods with 403 /,
  /api-server +refuses LISTs of the operator's pods with 500 /,
  /verdict other-operator : rollout-operator runs as pod/,
  /verdict other-operator : rollout-operator runs as pod \S+ and 1 more,/,
  /verdict other-operator : pod \S+ of rollout-operator is being deleted/,
  /verdict other-operator : pod \S+ of rollout-operator is gone/,
  /verdict other-operator : whether rollout-operator runs in db is unknown/,
  /evict \S+: other-operator: /,
  /evict \S+: allowed/,
  /review of group-[ab]: other-operator: /,
  /review of group-[ab]: allowed/,
  /replica-\d+ +delete group-\S+: done/,
  /keeper-\d+ +create leases/,
  /(raise|lower) group-[ab]: done/,
  /(follower|delayer|releaser|replica|keeper)-\d+ is killed/,
  /(webhook|preparer)-\d+ is killed/,
  /-\d+ is stopped/,
  /-\d+ goes on/,
];

test("beside an operator that comes and goes no promise breaks, and all of it happens", async () => {
  const missing = new Set(happenings);
  for (let seed = 1; seed <= 50; seed++) {
    const { violations, history } = await simulate(seed, { aim: (plan, draw) => standing(plan, draw), verbose: true });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --only other-operator --seed ${seed}`);
    for (const what of missing) if (history.some((line) => what.test(line))) missing.delete(what);
  }
  assert.deepEqual([...missing].map(String), []);
});
