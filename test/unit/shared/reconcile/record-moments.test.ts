/**
 * When a verdict deserves a write of its own, since when it has lasted, and which Kubernetes Events it gets: to the
 * millisecond.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { eventPolicy } from "../../../../functions/advance-zone-rollout/act.ts";
import { recordRefusal } from "../../../../functions/shared/admission/refusal-events.ts";
import { wait } from "../../../../functions/shared/contract/verdict.ts";
import { eventReasons } from "../../../../functions/shared/events/reasons.ts";
import type { RecordedVerdict, Refusal, StoredLedger } from "../../../../functions/shared/ledger/reservation.ts";
import { recordOf, recordVerdictEvent, writeAloneInMs } from "../../../../functions/shared/reconcile/record.ts";
import { keptRefusals } from "../../../../functions/shared/transaction/claims.ts";
import type { GroupObservation } from "../../../../functions/shared/transaction/observe-group.ts";
import { nowMs, refusal, reservation, statefulSet, zone } from "../../functions/advance-zone-rollout/given.ts";
import { Harness, key, played, refused } from "./harness.ts";

const by = "advance-zone-rollout";
const paused: RecordedVerdict = {
  guard: "paused",
  zone: "a",
  sentence: "a is paused",
  since: nowMs - 1_000,
  at: nowMs,
};
const done: RecordedVerdict = { ...paused, guard: "done", zone: "", sentence: "all pods are new" };

/** A reconcile of a group whose ledger has `written` as its last verdict, or none. */
function reconcile(
  written: RecordedVerdict | undefined,
  {
    ledger = {},
    ...changes
  }: Partial<Omit<GroupObservation, "ledger">> & { readonly ledger?: Partial<StoredLedger> } = {},
): GroupObservation {
  const zones = [zone("a", "oo"), zone("b", "oo")];
  return {
    key,
    nowMs,
    zones,
    reserved: new Map(),
    open: [],
    departed: [],
    strayClaims: [],
    abandoned: 0,
    joining: { awaited: new Map(), needsList: false, members: ["a", "b"] },
    isMended: false,
    refusals: new Map(),
    givenUp: new Map(),
    view: { seenThrough: 1, membersThrough: 1 } as GroupObservation["view"],
    ...changes,
    ledger: {
      kind: "stored",
      key,
      name: "sluice-group",
      uid: "u",
      resourceVersion: "1",
      createdMs: 0,
      othersBytes: 0,
      settledThrough: 1,
      membersThrough: 1,
      claims: [],
      reservations: [],
      refusals: [],
      verdicts: written === undefined ? {} : { [by]: written },
      ...ledger,
    },
  };
}

/** Time until a record is written alone, this long after this process last wrote. */
function writtenIn(observed: GroupObservation, record: RecordedVerdict, quietMs = Number.POSITIVE_INFINITY) {
  const { context } = new Harness();
  const memory = context.memoryOf(key);
  const monotonicMs = () => 1_000_000;
  memory.ledgerWrittenMs = 1_000_000 - quietMs;
  return writeAloneInMs({ ...context, cluster: { ...context.cluster, monotonicMs } }, memory, by, observed, record);
}

const ago = (ms: number, verdict = paused): RecordedVerdict => ({ ...verdict, at: nowMs - ms });

describe("when a verdict is written alone", () => {
  test("a changed verdict waits until five seconds after the last write, by this process or by the one that the ledger shows", () => {
    for (const changed of [
      { ...paused, guard: "budget" },
      { ...paused, zone: "b" },
    ]) {
      for (const [writtenAgoMs, quietMs, inMs] of [
        [60_000, 60_000, 0],
        [60_000, 5_000, 0],
        [60_000, 4_999, 1],
        [60_000, 1_000, 4_000],
        [2_000, 60_000, 3_000],
        [-2_000, 60_000, 3_000],
        [0, 60_000, 5_000],
        [3_000, 1_000, 4_000],
      ] as const) {
        assert.equal(writtenIn(reconcile(ago(writtenAgoMs)), changed, quietMs), inMs);
      }
    }
    assert.equal(writtenIn(reconcile(undefined), paused), 0, "the first verdict");
    assert.equal(writtenIn(reconcile(undefined), paused, 1_000), 4_000);
  });

  test("an unchanged verdict is not written, unless it is a wait of four minutes", () => {
    assert.equal(writtenIn(reconcile(ago(239_999)), paused), undefined);
    assert.equal(writtenIn(reconcile(ago(240_000)), paused), 0);
    assert.equal(writtenIn(reconcile(ago(240_000, done)), done), undefined);
    assert.equal(writtenIn(reconcile(ago(9_000_000, done)), done), undefined);
  });

  test("another message of the same verdict is written after thirty seconds, by any clock", () => {
    const reworded = { ...paused, sentence: "a is paused with 2 pods" };
    assert.equal(writtenIn(reconcile(ago(0)), reworded), 30_000);
    assert.equal(writtenIn(reconcile(ago(29_999)), reworded), 1);
    assert.equal(writtenIn(reconcile(ago(40_000)), reworded), 0);
    assert.equal(writtenIn(reconcile(ago(-10_000)), reworded), 20_000, "of an API server whose clock is ahead");
    assert.equal(writtenIn(reconcile(ago(10_000, done)), { ...done, sentence: "all is well" }), 20_000);
  });

  test("a group that never had any work gets no verdict", () => {
    assert.equal(writtenIn(reconcile(undefined), done), undefined);
    assert.equal(writtenIn(reconcile(ago(6_000)), done), 0, "a group that had work gets one");
  });

  test("the last reservations that settle are removed when all is done, and before that with the next decision", () => {
    const ledger = { reservations: [reservation("a-0")] };
    assert.equal(writtenIn(reconcile(ago(60_000, done), { ledger }), done), 0);
    assert.equal(writtenIn(reconcile(undefined, { ledger }), done), 0);
    assert.equal(writtenIn(reconcile(ago(60_000), { ledger }), paused), undefined);
    assert.equal(writtenIn(reconcile(ago(60_000, done), { ledger, open: ledger.reservations }), done), undefined);
  });

  test("a refusal that the ledger lacks is written, and one that it has is not: by pod, function and moment", () => {
    const [uid, one] = refusal("a-0");
    const refusals = new Map([[uid, one]]);
    const known = (...reported: Refusal[]) =>
      writtenIn(reconcile(ago(60_000), { refusals, ledger: { refusals: reported } }), paused);
    assert.equal(known(one), undefined);
    assert.equal(known({ ...one, uid: "another" }, one), undefined);
    assert.equal(known(), 0);
    assert.equal(known({ ...one, uid: "another" }), 0);
    assert.equal(known({ ...one, by: "evaluate-eviction" }), 0);
    assert.equal(known({ ...one, stampMs: one.stampMs - 600_000 }), 0);
    const both = new Map([...refusals, refusal("a-1")]);
    assert.equal(writtenIn(reconcile(ago(60_000), { refusals: both, ledger: { refusals: [one] } }), paused), 0);
  });

  test("an abandoned or corrected reservation, or a first decision (R4, R10), is written at once, without a quiet time", () => {
    for (const changes of [{ abandoned: 1 }, { isMended: true }, { ledger: { settledThrough: undefined } }]) {
      assert.equal(writtenIn(reconcile(ago(0), changes), paused, 0), 0);
    }
    assert.equal(writtenIn(reconcile(ago(0)), paused, 0), undefined);
  });
});

describe("since when a verdict holds", () => {
  const since = (
    memory: ReturnType<Harness["context"]["memoryOf"]>,
    observed: GroupObservation,
    guard = "paused",
    where = "a",
  ) => recordOf(memory, { name: by, eventPolicy }, observed, wait(guard, "words", { zone: where })).since;

  test("it holds since it was first found, written or not, while guard and zone stay the same", () => {
    const memory = new Harness().context.memoryOf(key);
    assert.equal(since(memory, reconcile(undefined)), nowMs);
    assert.equal(since(memory, reconcile(undefined, { nowMs: nowMs + 5_000 })), nowMs);
    assert.equal(since(memory, reconcile({ ...paused, since: nowMs - 9_000 }, { nowMs: nowMs + 6_000 })), nowMs);
    assert.equal(
      since(memory, reconcile(undefined, { nowMs: nowMs + 7_000 }), "paused", "b"),
      nowMs + 7_000,
      "another zone",
    );
    assert.equal(
      since(memory, reconcile(undefined, { nowMs: nowMs + 8_000 }), "budget", "b"),
      nowMs + 8_000,
      "another guard",
    );
  });

  test("a process that has just started goes on from the ledger, if that has the same guard and zone", () => {
    const fresh = () => new Harness().context.memoryOf(key);
    assert.equal(since(fresh(), reconcile(paused)), paused.since);
    assert.equal(since(fresh(), reconcile(paused), "budget"), nowMs);
    assert.equal(since(fresh(), reconcile(paused), "paused", "b"), nowMs);
  });
});

test("the hundred newest refusals are kept, of rollouts and evictions together, the oldest first", () => {
  const some = (from: number, name: string): Map<string, Refusal> =>
    new Map(
      Array.from({ length: 60 }, (_, index) => {
        const uid = `${name}-${index}`;
        return [uid, { uid, pod: uid, message: "no", stampMs: from + index * 2 }];
      }),
    );
  const kept = keptRefusals(reconcile(undefined, { refusals: some(1, "odd"), givenUp: some(0, "even") }));
  assert.deepEqual(
    kept.map(({ stampMs }) => stampMs),
    Array.from({ length: 100 }, (_, index) => index + 20),
  );
});

describe("which Events", () => {
  /** The reports when one verdict is recorded after another. */
  async function recordedAfter(
    before: RecordedVerdict | undefined,
    record: RecordedVerdict,
    harness = new Harness(),
    changes = {},
  ) {
    await played(
      harness.timeline,
      recordVerdictEvent(harness.context, { name: by, eventPolicy }, reconcile(before, changes), record),
    );
    return harness.events;
  }
  const rolling: RecordedVerdict = { ...paused, guard: "rolling", sentence: "2 of 3 pods are outdated" };
  const budget: RecordedVerdict = { ...paused, guard: "budget", sentence: "one pod is down" };

  test("a zone that starts has an Event, and a zone that goes on after a usual guard has none", async () => {
    const started = [`${eventReasons.rolling} a: 2 of 3 pods are outdated`];
    const reportedAfter = (before?: RecordedVerdict) => recordedAfter(before, rolling);
    assert.deepEqual(await reportedAfter(), started);
    assert.deepEqual(await reportedAfter(paused), started, "after a user had paused it");
    assert.deepEqual(await reportedAfter({ ...budget, zone: "b" }), started, "after another zone");
    assert.deepEqual(await reportedAfter({ ...rolling, zone: "b" }), started);
    assert.deepEqual(await reportedAfter(budget), []);
    assert.deepEqual(await reportedAfter(rolling), []);
    assert.deepEqual(await recordedAfter(rolling, { ...rolling, since: nowMs - 90_000 }), [], "however long it takes");
  });

  test("a usual guard has an Event when it has held for a minute, any other at once, and only on a change", async () => {
    assert.deepEqual(await recordedAfter(rolling, { ...budget, since: nowMs - 59_999 }), []);
    const blocked = { ...budget, since: nowMs - 60_000 };
    assert.deepEqual(await recordedAfter(rolling, blocked), ["RolloutWaiting a: budget: one pod is down"]);
    const fresh = { ...budget, guard: "ledger-new" };
    assert.deepEqual(await recordedAfter(rolling, fresh), [], "every first reconcile meets it");
    assert.deepEqual(await recordedAfter(rolling, paused), ["RolloutWaiting a: paused: a is paused"]);
    assert.deepEqual(await recordedAfter(paused, paused), []);
    assert.equal((await recordedAfter({ ...paused, zone: "b" }, paused)).length, 1, "another zone is a change");
  });

  test("the end of all work has an Event without a guard, if there was any work", async () => {
    assert.deepEqual(await recordedAfter(undefined, done), []);
    assert.deepEqual(await recordedAfter(done, done), []);
    assert.deepEqual(await recordedAfter(rolling, done), [`${eventReasons.completed} a: all pods are new`]);
  });

  test("an Event is about the verdict's zone, or the first zone, and a group without zones has none", async () => {
    assert.match((await recordedAfter(undefined, { ...paused, zone: "b" }))[0] ?? "", /^RolloutWaiting b: /);
    assert.match((await recordedAfter(undefined, { ...paused, zone: "" }))[0] ?? "", /^RolloutWaiting a: /);
    assert.deepEqual(await recordedAfter(undefined, paused, new Harness(), { zones: [] }), []);
  });

  test("an Event that could not be sent is reported, and is sent by the next reconcile", async () => {
    const harness = new Harness();
    harness.interfere = () => {
      throw refused(503);
    };
    assert.deepEqual(await recordedAfter(undefined, paused, harness), []);
    assert.deepEqual(harness.problems, ["no Event could be sent about a"]);
    harness.interfere = () => {};
    assert.equal((await recordedAfter(undefined, paused, harness)).length, 1);
    await recordedAfter(undefined, paused, harness);
    assert.equal(harness.count("create events"), 2, "and then no more");
  });

  test("at most a thousand sent Events are remembered", async () => {
    for (const report of [
      (harness: Harness) => recordedAfter(undefined, paused, harness),
      async (harness: Harness) => {
        const denied = { guard: "zone-budget", message: "no" } as Parameters<typeof recordRefusal>[3];
        recordRefusal(harness.context, by, statefulSet("a", { group: key.group }), denied, "EvictionRefused");
        await harness.goOn(1);
      },
    ]) {
      for (const [already, remembered] of [
        [998, 999],
        [1_000, 1_000],
      ] as const) {
        const harness = new Harness();
        const { sentEvents } = harness.context.memoryOf(key);
        for (let event = 0; event < already; event++) sentEvents.add(`${event}`);
        await report(harness);
        assert.equal(sentEvents.size, remembered);
      }
    }
  });

  test("a refused eviction is recorded once a minute, and is remembered with its group, or with a StatefulSet that has none", async () => {
    const harness = new Harness();
    const denied = { guard: "zone-budget", message: "no" } as Parameters<typeof recordRefusal>[3];
    const minuteMs = 60_000 - (harness.cluster.serverTimeMs() % 60_000);
    await harness.goOn(minuteMs);
    const grouped = statefulSet("a", { group: key.group });
    recordRefusal(harness.context, by, grouped, denied, "EvictionRefused");
    await harness.goOn(59_000);
    recordRefusal(harness.context, by, grouped, denied, "EvictionRefused");
    await harness.goOn(10);
    assert.equal(harness.count("create events"), 1);
    await harness.goOn(1_000);
    recordRefusal(harness.context, by, grouped, denied, "EvictionRefused");
    recordRefusal(harness.context, by, statefulSet("alone", { group: undefined }), denied, "EvictionRefused");
    await harness.goOn(10);
    assert.equal(harness.events.length, 3);
    assert.equal(harness.context.memoryOf(key).sentEvents.size, 2);
    assert.equal(harness.context.memoryOf({ ...key, group: "statefulset:alone" }).sentEvents.size, 1);
  });
});
