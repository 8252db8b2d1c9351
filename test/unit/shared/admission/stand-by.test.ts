/** Reviews beside rollout-operator: Sluice refuses what a ledger would decide, and answers all else as always. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AdmissionAnswer } from "../../../../functions/shared/admission/definition.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { OtherOperator } from "../../../../functions/shared/contract/stand-by.ts";
import { wait } from "../../../../functions/shared/contract/verdict.ts";
import { addBudget, Replica } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { preparedGroup } from "../../functions/prepare-downscale/downscales.ts";
import { Harness, namespace } from "../reconcile/harness.ts";

const message = "rollout-operator runs as pod test/operator-1";

/** It is asked about the namespaces in `asked`. */
function running(asked: string[] = []): OtherOperator {
  return {
    sentEvents: new Set(),
    async standBy(where) {
      asked.push(where);
      return wait("other-operator", message);
    },
  };
}

const gone: OtherOperator = { sentEvents: new Set(), standBy: async () => undefined };

function assertStandsBy(answer: AdmissionAnswer): void {
  assert.ok(!answer.allowed);
  assert.deepEqual([answer.code, answer.reason, answer.guard], [429, "TooManyRequests", "other-operator"]);
  assert.ok(answer.message.includes(message));
}

test("an eviction that a ledger would decide is refused with 429, also in a dry run, and no ledger is read", async () => {
  const harness = new Harness();
  addBudget(harness);
  const asked: string[] = [];
  const replica = new Replica(harness, () => ({ otherOperator: running(asked) }));
  for (const dryRun of [false, true]) assertStandsBy(await replica.answer(replica.review("group-a-0", { dryRun })));
  assert.deepEqual(asked, [namespace, namespace]);
  assert.deepEqual(replica.writes, ["create events"]);
  assert.equal(replica.count("get leases"), 0);
});

test("an eviction that needs no ledger is answered as without the operator, so that a node with its own pod can be drained", async () => {
  const harness = new Harness();
  const metadata = { name: "operator-1", labels: { name: "rollout-operator" } };
  harness.world.store.create("pods", namespace, { metadata, spec: { containers: [{ name: "a", image: "a" }] } });
  const answers: string[] = [];
  for (const otherOperator of [running(), gone]) {
    const replica = new Replica(harness, () => ({ otherOperator }));
    answers.push(...(await replica.guards(replica.review("operator-1"), replica.review("absent-1"))));
  }
  const [withPod, withoutPod, ...later] = answers;
  assert.deepEqual(later, [withPod, withoutPod]);
  assert.equal(withPod, "out-of-scope");
});

test("once the operator is gone the ledger decides the eviction", async () => {
  const harness = new Harness();
  addBudget(harness);
  const replica = new Replica(harness, () => ({ otherOperator: gone }));
  const [guard] = await replica.guards(replica.review("group-a-0"));
  assert.notEqual(guard, "other-operator");
  assert.ok(replica.count("get leases") > 0);
});

test("a prepared downscale is refused with 429 and no pod is called, while changes that need no call go through", async () => {
  const world = await preparedGroup();
  const beside = (otherOperator: OtherOperator) => world.process((): Partial<Context> => ({ otherOperator }));
  const process = beside(running());
  assertStandsBy(await process.review("group-a", 4));
  assertStandsBy(await process.reviewScale("group-a", 4));
  assert.deepEqual([world.requests, world.claimed], [[], []]);
  assert.deepEqual(process.writes(), ["create events"]);
  assert.equal((await process.review("group-a", 6)).allowed, true, "a zone may grow");
  assert.equal(await process.guard("group-a", 4, { dryRun: true }), "dry-run");
  assert.equal(await beside(gone).guard("group-a", 4), "allowed");
});

test("in shadow mode the refusal is a warning, as every other", async () => {
  const harness = new Harness();
  addBudget(harness);
  const replica = new Replica(harness, () => ({ mode: "shadow", otherOperator: running() }));
  const answer = await replica.answer(replica.review("group-a-0"));
  assert.ok(answer.allowed);
  assert.match(answer.warnings.join(), /otherwise refused with 429/);
});
