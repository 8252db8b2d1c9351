/** How a process gets a group's ledger: how old it is, whose copy it has, and which answers to a write are a conflict. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { createLedgerCopies, createMemory } from "../../../../functions/shared/contract/memory.ts";
import { type Cluster, ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { LedgerChange, StoredLedger } from "../../../../functions/shared/ledger/reservation.ts";
import { noteLedger, refuseNewLedger } from "../../../../functions/shared/transaction/ledger-age.ts";
import {
  Conflict,
  forgetLedger,
  isConflict,
  knownLedger,
  leasesNeed,
  loadLedger,
  takeLedger,
  writeChange,
} from "../../../../functions/shared/transaction/ledger-copy.ts";
import { type GroupObservation, observeGroup } from "../../../../functions/shared/transaction/observe-group.ts";
import { claimOf, nowMs, reservation } from "../../functions/advance-zone-rollout/given.ts";
import { Harness, key, played, refused } from "../reconcile/harness.ts";

/** A connection whose monotonic clock the test sets. */
function clockAt(startMs = 0): { cluster: Cluster; set(ms: number): void } {
  let atMs = startMs;
  const cluster = { monotonicMs: () => atMs } as Cluster;
  const set = (ms: number): void => {
    atMs = ms;
  };
  return { cluster, set };
}

const ledger = { uid: "u", resourceVersion: "1", name: "sluice-group", createdMs: nowMs } as StoredLedger;

describe("how old a ledger is (R4)", () => {
  /**
   * Time for which the ledger still counts as new, by its age on the API server's clock and by how long this process
   * has known it.
   */
  function newFor(madeAgoMs: number, knownForMs: number | undefined): number | undefined {
    const { cluster, set } = clockAt();
    if (knownForMs !== undefined) noteLedger(cluster, "u");
    set(knownForMs ?? 0);
    const made = { ...ledger, createdMs: nowMs - madeAgoMs };
    const answer = refuseNewLedger({ cluster }, { ledger: made, nowMs });
    assert.ok(answer === undefined || answer.guard === "ledger-new");
    return answer?.requeueAfterMs;
  }

  test("a ledger permits 10 s after a process first saw it, or 41 s after its creation, because clocks differ and its second is cut", () => {
    assert.equal(newFor(0, undefined), 10_000);
    assert.equal(newFor(0, 9_999), 1);
    assert.equal(newFor(0, 10_000), undefined);
    assert.equal(newFor(40_999, undefined), 1);
    assert.equal(newFor(40_999, 0), 1);
    assert.equal(newFor(41_000, undefined), undefined);
    assert.equal(newFor(35_000, 1_000), 6_000);
    assert.equal(newFor(35_000, 6_000), 4_000);
  });

  test("with an unknown time of creation only the time since this process first saw the ledger counts", () => {
    assert.equal(newFor(Number.NaN, undefined), 10_000);
    assert.equal(newFor(Number.NaN, 9_000), 1_000);
    assert.equal(newFor(Number.NaN, 10_000), undefined);
  });

  test("a ledger from elsewhere ages from the write at which it was found, whenever it was created, and again from each write", () => {
    const { cluster, set } = clockAt(5_000);
    const found = (resourceVersion: string) => {
      const restored = { ...ledger, createdMs: 0, resourceVersion, isElsewhere: true };
      return refuseNewLedger({ cluster }, { ledger: restored, nowMs })?.requeueAfterMs;
    };
    assert.equal(found("1"), 10_000);
    set(14_999);
    assert.equal(found("1"), 1);
    assert.equal(found("2"), 10_000);
    set(15_000);
    assert.equal(found("1"), undefined);
    assert.equal(found("2"), 9_999);
  });

  test("a ledger that is known to have existed earlier is older by that, and the first known time stays", () => {
    const { cluster } = clockAt(100_000);
    assert.equal(noteLedger(cluster, "u", 4_000), 96_000);
    assert.equal(noteLedger(cluster, "u", 9_000), 96_000);
    assert.equal(refuseNewLedger({ cluster }, { ledger, nowMs })?.requeueAfterMs, 6_000);
  });

  test("ten thousand ledgers are remembered, and beyond that the first is forgotten", () => {
    const { cluster, set } = clockAt();
    for (let index = 0; index < 10_000; index++) noteLedger(cluster, `${index}`);
    set(20_000);
    const isNew = (uid: string) => refuseNewLedger({ cluster }, { ledger: { ...ledger, uid }, nowMs }) !== undefined;
    assert.deepEqual([isNew("0"), isNew("9999")], [false, false]);
    noteLedger(cluster, "one more");
    assert.deepEqual([isNew("0"), isNew("1"), isNew("9999"), isNew("one more")], [true, false, false, true]);
  });
});

test("only a ledger that was written, is gone, or has another uid is a conflict (R3)", () => {
  const invalid = "Lease is invalid: metadata.uid: Invalid value";
  assert.ok([404, 409].every((code) => isConflict(refused(code))));
  assert.ok(isConflict(refused(422, invalid)));
  for (const error of [refused(422), refused(403, invalid), refused(0), new Error(invalid), undefined])
    assert.ok(!isConflict(error));
});

test("a right to Leases covers the label that marks a ledger, beside our annotations", () => {
  const changes = ["metadata.annotations[sluice.dev/*]", "metadata.labels[app.kubernetes.io/managed-by]"];
  assert.deepEqual(leasesNeed("get", "patch").changes, changes);
});

describe("the copy", () => {
  test("a copy with a claim serves for 5 s, one with a reservation for 20 s, and any other until a write", () => {
    const claims = [claimOf("a:0", "scale-down")];
    const reservations = [reservation("a-0")];
    for (const [contents, servesMs] of [
      [{ claims, reservations }, 5_000],
      [{ claims: [], reservations }, 20_000],
      [{ claims: [], reservations: [] }, undefined],
    ] as const) {
      const memory = createMemory()(key);
      const copied = { ...ledger, ...contents };
      Object.assign(memory.copy, { ledger: copied, from: memory, atMs: 1_000 });
      const at = (ms: number) => knownLedger(clockAt(1_000 + ms), memory);
      assert.equal(at((servesMs ?? 1e12) - 1), copied);
      assert.equal(at(servesMs ?? 1e12), servesMs === undefined ? copied : undefined, `${servesMs} ms`);
    }
  });

  test("a copy of another function that is older than the last read of this one moves no time back (R5)", () => {
    for (const [readMs, expectedMs] of [
      [7_000, 7_000],
      [3_000, 5_000],
    ] as const) {
      const memory = createMemory()(key);
      const other = createMemory(() => memory.copy)(key);
      Object.assign(memory.copy, { ledger: { ...ledger, claims: [], reservations: [] }, from: other, atMs: 5_000 });
      memory.ledgerReadMs = readMs;
      assert.ok(knownLedger(clockAt(8_000), memory) !== undefined);
      assert.equal(memory.ledgerReadMs, expectedMs);
    }
  });

  test("of two reservations with one pod uid only the one whose stamp was refused is left out (R10)", async () => {
    const memoryOf = createMemory();
    const memory = memoryOf(key);
    const refusedOne = reservation("a-0");
    const other = { ...refusedOne, ordinal: 1, stampMs: refusedOne.stampMs + 1 };
    const copied = { ...ledger, claims: [], reservations: [refusedOne, other] };
    Object.assign(memory.copy, { ledger: copied, from: memory, atMs: 0 });
    memory.refusedOnce.set(refusedOne.uid, refusedOne);
    const taken = await takeLedger({ ...clockAt(), memoryOf } as unknown as Context, key);
    assert.deepEqual([taken?.ledger.reservations, taken?.copy], [[other], copied]);
  });

  test("after another function's write StatefulSets are read again, and after a function's own write they are not (R5)", async () => {
    const harness = await new Harness().prepare();
    const memoryIn = createMemory(createLedgerCopies());
    const mine = { ...harness.context, memoryOf: memoryIn };
    const memory = memoryIn(key);
    const other = createMemory(() => memory.copy)(key);
    await played(harness.timeline, loadLedger(mine, key, other));
    const readMs = other.ledgerReadMs;
    await harness.goOn(3_000);
    const write = async () => {
      const loaded = knownLedger(mine, memory) ?? assert.fail();
      const need = { permitSinceMs: undefined, consistent: false };
      const observed = await played(harness.timeline, observeGroup(mine, loaded, need));
      const { seenThrough, membersThrough } = observed.view;
      const change = { reservations: [], seenThrough, membersThrough, refusals: [], verdicts: {} };
      await played(harness.timeline, writeChange(mine, observed, change));
    };
    await write();
    const writtenMs = harness.cluster.monotonicMs();
    assert.equal(memory.ledgerWrittenMs, writtenMs);
    assert.equal(knownLedger(mine, memory)?.resourceVersion, harness.ledger.resourceVersion);
    assert.equal(memory.ledgerReadMs, readMs, "it has only taken over what the other one read");
    assert.equal(knownLedger(mine, other)?.resourceVersion, harness.ledger.resourceVersion);
    assert.equal(other.ledgerReadMs, writtenMs);
  });

  test("a ledger that disappears as soon as it was created is a conflict", async () => {
    const harness = new Harness();
    const protocol = { ...harness.context.protocol, createLedger: async () => undefined };
    const loading = loadLedger({ ...harness.context, protocol }, key, harness.context.memoryOf(key));
    await assert.rejects(played(harness.timeline, loading), Conflict);
  });
});

describe("a write", () => {
  /** A group that is read, and a write of the same content. */
  async function writer() {
    const harness = await new Harness().prepare();
    const memory = harness.context.memoryOf(key);
    const need = { permitSinceMs: undefined, consistent: false };
    const observe = () => played(harness.timeline, observeGroup(harness.context, harness.ledger, need));
    const write = async (reservations = harness.ledger.reservations, observed?: GroupObservation) => {
      forgetLedger(memory);
      const seen = observed ?? (await observe());
      const { seenThrough, membersThrough } = seen.view;
      const change = { reservations, seenThrough, membersThrough, refusals: [], verdicts: {} };
      return played(harness.timeline, writeChange(harness.context, seen, change));
    };
    return { harness, memory, observe, write };
  }

  test("a write that was refused for good is not sent again for thirty seconds, and then it is", async () => {
    const { harness, observe, write } = await writer();
    harness.interfere = ({ verb }) => {
      if (verb === "patch") throw refused(422, "no");
    };
    const observed = await observe();
    const startMs = harness.cluster.monotonicMs();
    const goTo = (ms: number) => harness.goOn(startMs + ms - harness.cluster.monotonicMs());
    const fails = () => assert.rejects(write([], observed), { name: "LedgerRefused", message: /with 422: no\. / });
    await fails();
    await goTo(29_999);
    await fails();
    assert.equal(harness.count("patch leases"), 1);
    await goTo(30_000);
    harness.interfere = () => {};
    await write([], observed);
    await write();
    assert.equal(harness.count("patch leases"), 3, "after a successful write the next one is sent at once");
  });

  test("only withdrawn reservations that the ledger still has, stamp by stamp, stay withdrawn after a write", async () => {
    for (const answer of [
      undefined,
      new ClusterError({ code: 0, reason: "", message: "", verb: "patch", resource: "leases" }),
    ]) {
      const { harness, memory, write } = await writer();
      const reserved = [0, 1].map((ordinal) => ({
        ...reservation(`group-a-${ordinal}`),
        stampMs: harness.cluster.serverTimeMs() + ordinal,
      }));
      await write(reserved);
      const [one, two] = reserved as [(typeof reserved)[0], (typeof reserved)[0]];
      const set = (name: string, changes: object) => memory.refusedOnce.set(name, { ...one, uid: name, ...changes });
      set(one.uid, {});
      set(two.uid, { by: "evaluate-eviction", stampMs: two.stampMs });
      harness.interfere = ({ verb }) => {
        if (verb === "patch" && answer !== undefined) throw answer;
      };
      set("of-no-pod", {});
      await write().catch((error: unknown) => assert.equal(error, answer));
      assert.deepEqual([...memory.refusedOnce.keys()], [one.uid]);
      set(one.uid, { stampMs: one.stampMs - 1 });
      await write().catch((error: unknown) => assert.equal(error, answer));
      assert.deepEqual([...memory.refusedOnce.keys()], []);
    }
  });
});

test("a ledger that exists only in memory is never written (R16)", async () => {
  const harness = new Harness();
  const { context } = harness;
  const imagined = await played(harness.timeline, loadLedger(context, key, context.memoryOf(key), true));
  assert.equal(imagined?.kind, "imagined");
  const observed = { key, ledger: imagined } as GroupObservation;
  await assert.rejects(writeChange(context, observed, {} as LedgerChange), /imagined, and is never written/);
  assert.equal(harness.count("patch leases"), 0);
});
