/**
 * A ledger that grows, or that the API server refuses to write, blocks no function: Sluice keeps it small, or a guard
 * reports why.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { type Call, Harness, ledgerKey, namespace, refused } from "../reconcile/harness.ts";

const isWrite = ({ verb, resource }: Call) => verb === "patch" && resource === "leases";

describe("rollouts", () => {
  test("a hundred refusals of 3 KB are shortened and dropped: the ledger is written once, and the rollout goes on", async () => {
    const harness = await new Harness({ replicas: 100, maxUnavailable: 100 }).prepare();
    let refusing = true;
    harness.interfere = ({ verb, resource }) => {
      if (refusing && verb === "delete" && resource === "pods") throw refused(403, "a webhook said no ".repeat(170));
    };
    for (let round = 0; round < 30; round++) {
      await harness.run();
      await harness.goOn(1_000);
    }
    assert.equal(harness.conflicts, 0);
    const { annotations } = harness.world.store.get("leases", ledgerKey).metadata;
    const bytes = Buffer.byteLength(
      Object.entries(annotations ?? {})
        .flat()
        .join(""),
    );
    assert.ok(bytes <= 192 * 1024, `${bytes}`);
    assert.equal(
      harness.ledger.reservations.length,
      0,
      "each deletion was refused at its only try, and its reservation is withdrawn",
    );
    assert.ok(harness.ledger.refusals.length > 50, `${harness.ledger.refusals.length}`);
    assert.match(harness.ledger.refusals[0]?.message ?? "", /^delete of group-[ab]-\d+ was refused with 403: .*…$/);
    const before = harness.calls.filter(isWrite).length;
    for (let round = 0; round < 30; round++) {
      await harness.run();
      await harness.goOn(1_000);
    }
    assert.equal(harness.calls.filter(isWrite).length, before, "a dropped refusal does not count as new");
    refusing = false;
  });

  test("ledger-refused: if the API server refuses a write for good, the guard has its message, and the next try is after 30 s", async () => {
    for (const [code, message] of [
      [
        422,
        'Lease.coordination.k8s.io "x" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes',
      ],
      [400, "no"],
      [403, "a policy said no"],
      [413, "Request entity too large"],
    ] as const) {
      const harness = await new Harness().prepare();
      harness.interfere = (call) => {
        if (isWrite(call)) throw refused(code, message);
      };
      const requeueAfterMs = await harness.run();
      assert.deepEqual([harness.guard, requeueAfterMs, harness.conflicts], ["ledger-refused", 30_000, 0]);
      const { message: text = "", sinceMs } = harness.verdicts.at(-1) ?? {};
      assert.match(
        text,
        new RegExp(
          `^the API server refused .* Lease sluice-group with ${code}: ${message.slice(0, 20)}.*find what refuses`,
        ),
      );
      for (let nth = 0; nth < 20; nth++) {
        await harness.goOn(1_000);
        await harness.run();
      }
      assert.equal(harness.calls.filter(isWrite).length, 1, "however often it is triggered meanwhile");
      assert.deepEqual([harness.count("delete pods"), harness.verdicts.at(-1)?.sinceMs], [0, sinceMs]);
      harness.interfere = () => {};
      await harness.goOn(11_000);
      await harness.run();
      assert.deepEqual([harness.guard, harness.count("delete pods")], ["rolling", 1]);
    }
  });

  test("a sweep does not wait for these 30 s", async () => {
    const harness = await new Harness().prepare();
    harness.interfere = (call) => {
      if (isWrite(call)) throw refused(422, "no");
    };
    await harness.run();
    harness.interfere = () => {};
    await harness.run(true);
    assert.equal(harness.guard, "rolling");
  });

  test("a missing right to write the ledger stays right-missing, and 422 for another uid a conflict", async () => {
    const harness = await new Harness().prepare();
    harness.interfere = (call) => {
      if (isWrite(call)) throw refused(403, 'User "u" cannot patch resource "leases" in API group');
    };
    await assert.rejects(harness.run(), /cannot patch resource/);
    harness.interfere = (call) => {
      if (isWrite(call))
        throw refused(422, 'Lease.coordination.k8s.io "l" is invalid: metadata.uid: Invalid value: "x"');
    };
    assert.equal(await harness.run(), 1_000);
    assert.equal(harness.conflicts, 5);
  });

  test("ledger-refused: a ledger that Sluice may not create", async () => {
    const harness = new Harness();
    harness.interfere = ({ verb, resource }) => {
      if (verb === "create" && resource === "leases") throw refused(403, "exceeded quota: leases");
    };
    assert.equal(await harness.run(), 30_000);
    assert.equal(harness.guard, "ledger-refused");
  });

  test("ledger-full: no pod goes while others leave no room for its reservation, and pods go again afterwards", async () => {
    const harness = await new Harness().prepare();
    harness.writeLedger({ theirs: "x".repeat(200_000) });
    assert.equal(await harness.run(true), 30_000);
    assert.deepEqual(
      [harness.guard, harness.count("delete pods"), harness.count("patch leases")],
      ["ledger-full", 0, 0],
    );
    harness.writeLedger({ theirs: null });
    await harness.run();
    assert.deepEqual([harness.guard, harness.count("delete pods")], ["rolling", 1]);
  });
});

describe("evictions", () => {
  test("ledger-refused: evictions get 429 with the API server's message, without a storm of writes", async () => {
    const harness = await governedGroup();
    const replica = new Replica(harness);
    replica.interfere = (call) => {
      if (isWrite(call)) throw refused(422, "metadata.annotations: Too long");
    };
    const answer = await replica.answer(replica.submit("group-a-0"));
    assert.deepEqual([answer.guard, !answer.allowed && answer.code, harness.conflicts], ["ledger-refused", 429, 0]);
    assert.match(answer.allowed ? "" : answer.message, /with 422: metadata\.annotations: Too long\. /);
    assert.deepEqual(await replica.guards(replica.submit("group-a-0"), replica.submit("group-a-1")), [
      "ledger-refused",
      "ledger-refused",
    ]);
    assert.equal(replica.count("patch leases"), 1);
    replica.interfere = () => {};
    await harness.goOn(30_000);
    assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  });

  test("ledger-full: evictions get 429 while others leave no room for a reservation", async () => {
    const harness = await governedGroup();
    harness.world.store.patch(
      "leases",
      { namespace, name: "sluice-group" },
      { metadata: { annotations: { theirs: "x".repeat(200_000) } } },
    );
    const replica = new Replica(harness);
    const answer = await replica.answer(replica.submit("group-a-0"));
    assert.deepEqual([answer.guard, !answer.allowed && answer.code], ["ledger-full", 429]);
    assert.deepEqual(reserved(harness), []);
    harness.writeLedger({ theirs: null });
    assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  });
});
