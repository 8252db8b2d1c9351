/** A ledger that grows, or that the API server refuses to write, hangs no function: it is kept small, or a guard says why. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { type Call, ledgerKey, namespace, Passes, refused } from "../reconcile/passes.ts";

const isWrite = ({ verb, resource }: Call) => verb === "patch" && resource === "leases";

describe("rollouts", () => {
  test("a hundred refusals of 3 KB are cut and shed: the ledger is written, is not written again for them, and the rollout goes on", async () => {
    const passes = await new Passes({ replicas: 100, maxUnavailable: 100 }).prepare();
    let refusing = true;
    passes.interfere = ({ verb, resource }) => {
      if (refusing && verb === "delete" && resource === "pods") throw refused(403, "a webhook said no ".repeat(170));
    };
    for (let pass = 0; pass < 30; pass++) {
      await passes.run();
      await passes.goOn(1_000);
    }
    assert.equal(passes.conflicts, 0);
    const { annotations } = passes.world.store.get("leases", ledgerKey).metadata;
    const bytes = Buffer.byteLength(
      Object.entries(annotations ?? {})
        .flat()
        .join(""),
    );
    assert.ok(bytes <= 192 * 1024, `${bytes}`);
    assert.equal(passes.ledger.reservations.length, 0, "each was refused at its only try, and is withdrawn");
    assert.ok(passes.ledger.refusals.length > 50, `${passes.ledger.refusals.length}`);
    assert.match(passes.ledger.refusals[0]?.message ?? "", /^delete of group-[ab]-\d+ was refused with 403: .*…$/);
    const before = passes.calls.filter(isWrite).length;
    for (let pass = 0; pass < 30; pass++) {
      await passes.run();
      await passes.goOn(1_000);
    }
    assert.equal(passes.calls.filter(isWrite).length, before, "what was shed is no news");
    refusing = false;
  });

  test("ledger-refused: a write that the API server refuses for good is a guard with its words, tried again after 30 s, and no conflict", async () => {
    for (const [code, message] of [
      [
        422,
        'Lease.coordination.k8s.io "x" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes',
      ],
      [400, "no"],
      [403, "a policy said no"],
      [413, "Request entity too large"],
    ] as const) {
      const passes = await new Passes().prepare();
      passes.interfere = (call) => {
        if (isWrite(call)) throw refused(code, message);
      };
      const requeueAfterMs = await passes.run();
      assert.deepEqual([passes.guard, requeueAfterMs, passes.conflicts], ["ledger-refused", 30_000, 0]);
      const { message: sentence = "", sinceMs } = passes.verdicts.at(-1) ?? {};
      assert.match(
        sentence,
        new RegExp(
          `^the API server refused .* Lease sluice-group with ${code}: ${message.slice(0, 20)}.*find what refuses`,
        ),
      );
      for (let wake = 0; wake < 20; wake++) {
        await passes.goOn(1_000);
        await passes.run();
      }
      assert.equal(passes.calls.filter(isWrite).length, 1, "however often it is woken meanwhile");
      assert.deepEqual([passes.count("delete pods"), passes.verdicts.at(-1)?.sinceMs], [0, sinceMs]);
      passes.interfere = () => {};
      await passes.goOn(11_000);
      await passes.run();
      assert.deepEqual([passes.guard, passes.count("delete pods")], ["rolling", 1]);
    }
  });

  test("a sweep does not wait for these 30 s", async () => {
    const passes = await new Passes().prepare();
    passes.interfere = (call) => {
      if (isWrite(call)) throw refused(422, "no");
    };
    await passes.run();
    passes.interfere = () => {};
    await passes.run(true);
    assert.equal(passes.guard, "rolling");
  });

  test("a right that is missing to write the ledger stays a missing right, and 422 for another uid a conflict", async () => {
    const passes = await new Passes().prepare();
    passes.interfere = (call) => {
      if (isWrite(call)) throw refused(403, 'User "u" cannot patch resource "leases" in API group');
    };
    await assert.rejects(passes.run(), /cannot patch resource/);
    passes.interfere = (call) => {
      if (isWrite(call))
        throw refused(422, 'Lease.coordination.k8s.io "l" is invalid: metadata.uid: Invalid value: "x"');
    };
    assert.equal(await passes.run(), 1_000);
    assert.equal(passes.conflicts, 5);
  });

  test("ledger-refused: a ledger that may not be made", async () => {
    const passes = new Passes();
    passes.interfere = ({ verb, resource }) => {
      if (verb === "create" && resource === "leases") throw refused(403, "exceeded quota: leases");
    };
    assert.equal(await passes.run(), 30_000);
    assert.equal(passes.guard, "ledger-refused");
  });

  test("ledger-full: where others leave no room for a reservation nothing goes, and once they are gone it does", async () => {
    const passes = await new Passes().prepare();
    passes.writeLedger({ theirs: "x".repeat(200_000) });
    assert.equal(await passes.run(true), 30_000);
    assert.deepEqual([passes.guard, passes.count("delete pods"), passes.count("patch leases")], ["ledger-full", 0, 0]);
    passes.writeLedger({ theirs: null });
    await passes.run();
    assert.deepEqual([passes.guard, passes.count("delete pods")], ["rolling", 1]);
  });
});

describe("evictions", () => {
  test("ledger-refused: a 429 that says what the API server said, without a storm of writes", async () => {
    const passes = await governedGroup();
    const replica = new Replica(passes);
    replica.interfere = (call) => {
      if (isWrite(call)) throw refused(422, "metadata.annotations: Too long");
    };
    const answer = await replica.answer(replica.submit("group-a-0"));
    assert.deepEqual([answer.guard, !answer.allowed && answer.code, passes.conflicts], ["ledger-refused", 429, 0]);
    assert.match(answer.allowed ? "" : answer.message, /with 422: metadata\.annotations: Too long\. /);
    assert.deepEqual(await replica.guards(replica.submit("group-a-0"), replica.submit("group-a-1")), [
      "ledger-refused",
      "ledger-refused",
    ]);
    assert.equal(replica.count("patch leases"), 1);
    replica.interfere = () => {};
    await passes.goOn(30_000);
    assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  });

  test("ledger-full: a 429 while others leave no room for a reservation", async () => {
    const passes = await governedGroup();
    passes.world.store.patch(
      "leases",
      { namespace, name: "sluice-group" },
      { metadata: { annotations: { theirs: "x".repeat(200_000) } } },
    );
    const replica = new Replica(passes);
    const answer = await replica.answer(replica.submit("group-a-0"));
    assert.deepEqual([answer.guard, !answer.allowed && answer.code], ["ledger-full", 429]);
    assert.deepEqual(reserved(passes), []);
    passes.writeLedger({ theirs: null });
    assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  });
});
