/** A ledger stays far below what the API server takes, whatever others say or write, and one that it refuses hangs nobody. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { annotationBytes, cut, maxLedgerBytes, maxSentenceBytes, shed } from "../../functions/shared/ledger-size.ts";
import { fitting, LedgerFull, maxReservations, parseLedger } from "../../functions/shared/reservation.ts";
import { namespace as givenNamespace, leaseObject, nowMs, reservation } from "./given.ts";
import { type Call, ledgerKey, namespace, Passes, refused } from "./passes.ts";
import { addBudget, governedGroup, Replica, reserved } from "./reviews.ts";

const verdict = { guard: "budget", zone: "a", sentence: "one of three is down", since: nowMs, at: nowMs };
const refusals = (count: number, sentence = "no") =>
  Array.from({ length: count }, (_, index) => ({ uid: `u-${index}`, pod: `a-${index}`, sentence, stampMs: index }));
const isWrite = ({ verb, resource }: Call) => verb === "patch" && resource === "leases";

describe("sizes", () => {
  test("a sentence is cut by its bytes, never in the middle of a character, and says so", () => {
    assert.equal(cut("short"), "short");
    assert.equal(cut("x".repeat(maxSentenceBytes)), "x".repeat(maxSentenceBytes));
    assert.equal(cut("abcdefgh", 7), "abcd…");
    for (const character of ["x", "ä", "€", "😀"]) {
      for (let maxBytes = 3; maxBytes < 20; maxBytes++) {
        const short = cut(character.repeat(30), maxBytes);
        assert.ok(Buffer.byteLength(short) <= maxBytes && short.endsWith("…"), short);
        assert.equal(short.replaceAll(character, ""), "…");
        assert.ok(Buffer.byteLength(short) + Buffer.byteLength(character) > maxBytes, "no more than needed");
        assert.equal(cut(short, maxBytes), short);
      }
    }
  });

  test("annotations count in bytes, keys and values", () => {
    assert.equal(annotationBytes({ a: "1", ä: "€" }), 1 + 1 + 2 + 3);
    assert.equal(annotationBytes(undefined), 0);
  });

  test("refusals go first, the oldest first; then sentences, then verdicts", () => {
    const verdicts = { old: { ...verdict, at: 1 }, young: { ...verdict, at: 2 } };
    const all = { refusals: refusals(10, "x".repeat(100)), verdicts };
    assert.deepEqual(shed(all, 10_000), all);
    const some = shed(all, 1_000);
    assert.deepEqual([some.refusals.at(-1)?.uid, some.verdicts], ["u-9", verdicts]);
    assert.ok(some.refusals.length > 2 && some.refusals.length < 10);
    assert.deepEqual(some.refusals, all.refusals.slice(-some.refusals.length));
    assert.deepEqual(shed(some, 1_000), some, "and again nothing more");
    const both = Buffer.byteLength(JSON.stringify(verdicts)) - 2;
    const silent = shed(all, both);
    assert.deepEqual(silent.refusals, []);
    assert.deepEqual([silent.verdicts.old?.sentence, silent.verdicts.young?.sentence], ["", verdict.sentence]);
    assert.deepEqual(Object.keys(shed(all, both / 2).verdicts), ["young"]);
    assert.deepEqual(shed(all, -5), { refusals: [], verdicts: {} });
  });

  const key = { namespace: givenNamespace, group: "group" };
  const ledgerOf = (annotations: Readonly<Record<string, string>>) =>
    parseLedger(key, leaseObject("sluice-group", { "sluice.dev/group": "group", ...annotations }));
  const change = {
    reservations: [reservation("a-0")],
    seenThrough: 1,
    refusals: refusals(2),
    verdicts: { f: verdict },
  };

  test("what others have written on the Lease counts, and only what informs is shed for it", () => {
    const own = { "sluice.dev/refusals": "x".repeat(100_000), "sluice.dev/verdicts": "x".repeat(100_000) };
    assert.deepEqual(fitting(ledgerOf(own), change).refusals.length, 2, "what the write replaces does not count");
    const { refusals: left, verdicts } = fitting(ledgerOf({ theirs: "x".repeat(maxLedgerBytes - 250) }), change);
    assert.deepEqual([left, verdicts], [[], {}]);
  });

  test("reservations are never shed: one that no longer fits is refused, and those that go may always go", () => {
    const two = [reservation("a-0"), reservation("a-1")];
    const full = ledgerOf({ theirs: "x".repeat(maxLedgerBytes) });
    assert.throws(
      () => fitting(full, { ...change, reservations: two }),
      (error) => {
        assert.ok(error instanceof LedgerFull);
        assert.match(
          error.message,
          /^Lease sluice-group has room for 196608 bytes .* other annotations take 1966\d\d\. Remove/,
        );
        return true;
      },
    );
    const holding = { ...full, reservations: two };
    assert.deepEqual(fitting(holding, { ...change, reservations: two }).refusals, []);
    assert.deepEqual(fitting(holding, { ...change, reservations: [] }).verdicts, {});
  });

  test("a thousand reservations fit beside sentences", () => {
    const many = Array.from({ length: maxReservations }, (_, index) => reservation(`ingester-zone-a-${index}`));
    const kept = fitting(ledgerOf({}), { ...change, reservations: many, refusals: refusals(40, "x".repeat(1_000)) });
    assert.deepEqual([kept.refusals.length, Object.keys(kept.verdicts)], [40, ["f"]]);
  });

  test("more reservations than there may be, and texts longer than any name, are unreadable: nobody follows them one by one", () => {
    const entry = ["u", "f", 1];
    const many = Object.fromEntries(Array.from({ length: maxReservations + 1 }, (_, index) => [index, entry]));
    const giants = [
      { a: many },
      { a: { 0: ["u".repeat(254), "f", 1] } },
      { a: { 0: ["u", "f".repeat(254), 1] } },
      { ["a".repeat(250_000)]: { 0: entry } },
      { a: { ["9".repeat(1_000)]: entry } },
    ];
    for (const reservations of giants) {
      assert.throws(
        () => ledgerOf({ "sluice.dev/reservations": JSON.stringify(reservations) }),
        (error: Error) => error.name === "LedgerUnreadable" && error.message.length < 1_500,
      );
    }
    assert.equal(
      ledgerOf({ "sluice.dev/reservations": JSON.stringify({ a: { ...many, 0: undefined } }) }).reservations.length,
      1_000,
    );
  });

  test("what a person writes into refusals and verdicts is read only so far", () => {
    const long = "x".repeat(100_000);
    const ledger = ledgerOf({
      "sluice.dev/refusals": JSON.stringify({ u: ["a-0", long, 1], v: [long, "no", 1] }),
      "sluice.dev/verdicts": JSON.stringify({ f: { ...verdict, sentence: long }, g: { ...verdict, guard: long } }),
    });
    assert.deepEqual(
      ledger.refusals.map(({ pod, sentence }) => [pod, Buffer.byteLength(sentence)]),
      [["a-0", 1024]],
    );
    assert.deepEqual(Object.keys(ledger.verdicts), ["f"]);
    assert.equal(Buffer.byteLength(ledger.verdicts.f?.sentence ?? ""), 1024);
  });
});

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
    assert.ok(annotationBytes(annotations) <= maxLedgerBytes, `${annotationBytes(annotations)}`);
    assert.equal(passes.ledger.reservations.length, 100);
    assert.ok(passes.ledger.refusals.length > 50, `${passes.ledger.refusals.length}`);
    assert.match(passes.ledger.refusals[0]?.sentence ?? "", /^delete of group-a-\d+ was refused with 403: .*…$/);
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
      const recheckMs = await passes.run();
      assert.deepEqual([passes.guard, recheckMs, passes.conflicts], ["ledger-refused", 30_000, 0]);
      const { sentence = "", sinceMs } = passes.verdicts.at(-1) ?? {};
      assert.match(
        sentence,
        new RegExp(
          `^the API server refused .* Lease sluice-group with ${code}: ${message.slice(0, 20)}.*lift what refuses`,
        ),
      );
      for (let wake = 0; wake < 20; wake++) {
        await passes.goOn(1_000);
        await passes.run();
      }
      assert.equal(passes.calls.filter(isWrite).length, 1, "whoever wakes it meanwhile");
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
    assert.match(answer.allowed ? "" : answer.sentence, /with 422: metadata\.annotations: Too long\. /);
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
    addBudget(passes, { maxUnavailable: 1, selector: { matchLabels: { other: "x" } } }, "other");
    passes.writeLedger({ theirs: null });
    assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  });
});
