/** Claims of every kind in the simulation break no promise, and each kind does occur. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { happens } from "../happens.ts";
import { simulate } from "../simulation.ts";
import { claimingAnywhere } from "./anywhere.ts";
import { asked, asking, claiming, fencing, fencingShipped } from "./scenarios.ts";

const happenings = [
  /claims \{"id":"scale-down-/,
  /claims \{"id":"volume-/,
  /claims \{"id":"process-/,
  /claims \{"id":"node-/,
  /scale-down-\d+ is settled/,
  /scale-down-\d+ is over/,
  /volume-\d+ is settled/,
  /process-\d+ is settled/,
  /node-\d+ is settled/,
  /node-\d+ is over/,
  /review of .+: joins/,
  /review of .+: is held/,
  /later +claims a zone/,
  /later +ends its claim/,
  /taker-\d+ is killed/,
  /verdict zone-scaling-down/,
  /verdict zone-removing-volume/,
  /verdict zone-restarting-process/,
  /verdict zone-losing-node/,
  /verdict zone-claim-unknown/,
  /evict .*: zone-scaling-down/,
  /evict .*: zone-removing-volume/,
  /evict .*: zone-restarting-process/,
  /evict .*: zone-losing-node/,
  /evict .*: zone-claim-unknown/,
];

test("claims of every kind, and of one that this version does not know, beside rollouts and drains break no promise, and all of it happens", async () => {
  const missing = new Set(happenings);
  for (let seed = 1; seed <= 60; seed++) {
    const { violations, history } = await simulate(seed, { aim: (plan) => claiming(plan), verbose: true });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --scenario claims --seed ${seed}`);
    for (const what of missing) if (history.some((line) => what.test(line))) missing.delete(what);
  }
  assert.deepEqual([...missing].map(String), []);
});

test("claims beside whatever troubles a seed has drawn break no promise, and end", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const { violations } = await simulate(seed, { aim: claimingAnywhere });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --scenario claims-anywhere --seed ${seed}`);
  }
});

test("processes that are asked first lose no quorum, though two functions want to restart one (R22)", () => {
  return happens("asking", (plan) => asking(plan), 40, [/claims \{"id":"process-/, /process-\d+ is settled/, /breaks/]);
});

test("rollouts and evictions that ask each pod first lose no quorum, however late the answers, and no second pod when pods lie (R22, Q1)", () => {
  const answers = [/evict .*: health-bad/, /evict .*: health-unknown/, /evict .*: health-beside-others/];
  const verdicts = [
    /verdict health-bad/,
    /verdict health-unknown/,
    /evict .*: allowed/,
    /replica-\d+ +delete group-.*: done/,
  ];
  const lies = [/pods +of group-[ab] say 200/, /pods +of group-[ab] say 503/];
  const killed = [/webhook-\d+ is killed/, /replica-\d+ is killed/];
  return happens("asked", (plan) => asked(plan), 40, [...answers, ...verdicts, ...lies, ...killed, /breaks/]);
});

test("a fence of two groups stands in both ledgers before it is carried out, wherever its process is killed (R23)", () => {
  const inTwo = [/claims \{.+ in group$/, /claims \{.+ in other$/, /fences [a-c]-\d/, /taker-\d+ is killed/, /is over/];
  return happens("fencing", (plan) => fencing(plan), 40, inTwo);
});

test("the shipped function announces each fence in both ledgers before a machine resets itself, and leaves nothing of it (R23, A6, A9, K6)", () => {
  const fenced = [/marks [a-c]-\d/, /resets itself$/, /resets itself and stays off/, /machines.+ is back/];
  return happens("fencing-shipped", (plan) => fencingShipped(plan), 6, [
    ...fenced,
    /fencer-\d+ is killed/,
    /zone-losing-node/,
  ]);
});
