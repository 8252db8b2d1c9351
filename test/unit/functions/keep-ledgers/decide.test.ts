import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, type LedgerHoldings } from "../../../../functions/keep-ledgers/decide.ts";
import type { Reservation } from "../../../../functions/shared/ledger/reservation.ts";

const key = { namespace: "db", group: "ingester" };
const empty: LedgerHoldings = { open: [], claims: [], besides: [] };
const reserved = (ordinal: number): Reservation => {
  return { statefulSet: "ingester-a", ordinal, uid: `uid-${ordinal}`, by: "other", stampMs: 1 };
};

const claim = { kind: "scale-down", zone: "ingester-b" };

test("a group with a StatefulSet gets a ledger if it has none, and keeps an existing one, whatever it holds", () => {
  assert.deepEqual(decide({ key, isLiving: true, ledger: undefined }), { kind: "make" });
  for (const ledger of [empty, { open: [reserved(0)], claims: [claim], besides: ["sluice.dev/some-time"] }])
    assert.deepEqual(decide({ key, isLiving: true, ledger }), { kind: "keep" });
});

test("a group without a StatefulSet gets no ledger, and Sluice collects its ledger if it holds nothing", () => {
  assert.deepEqual(decide({ key, isLiving: false, ledger: undefined }), { kind: "keep" });
  assert.deepEqual(decide({ key, isLiving: false, ledger: empty }), { kind: "collect" });
});

test("Sluice never collects a ledger that holds a reservation: the wait names the pod, and how many more there are", () => {
  const one = decide({ key, isLiving: false, ledger: { ...empty, open: [reserved(0)] } });
  assert.deepEqual(one, {
    kind: "wait",
    guard: "ledger-held",
    zone: "ingester-a",
    requeueAfterMs: undefined,
    message:
      "ingester has no StatefulSet any more, and its ledger holds the reservation of ingester-a-0: it is collected once all has settled",
  });
  const three = decide({ key, isLiving: false, ledger: { ...empty, open: [0, 1, 2].map(reserved) } });
  assert.ok(three.kind === "wait" && three.message.includes("of ingester-a-0 and 2 more: "));
});

test("Sluice never collects a ledger that holds a claim: the wait names its zone and its kind, after the reservations (R10a)", () => {
  const one = decide({ key, isLiving: false, ledger: { ...empty, claims: [claim] } });
  assert.ok(one.kind === "wait" && one.guard === "ledger-held" && one.zone === "ingester-b");
  assert.match(one.message, / holds a claim on ingester-b \(scale-down\): /);
  const two = decide({ key, isLiving: false, ledger: { ...empty, claims: [claim], open: [reserved(0)] } });
  assert.match(two.kind === "wait" ? two.message : "", / holds the reservation of ingester-a-0 and 1 more: /);
});

test("Sluice never collects a ledger with an entry that only another function can end: the wait names the entry", () => {
  const besides = ["sluice.dev/last-time", "sluice.dev/some-time"];
  const verdict = decide({ key, isLiving: false, ledger: { ...empty, besides } });
  assert.deepEqual(verdict, {
    kind: "wait",
    guard: "ledger-in-use",
    zone: "",
    requeueAfterMs: undefined,
    message:
      "ingester has no StatefulSet any more, and its ledger says sluice.dev/last-time, sluice.dev/some-time: who wrote that may still need it",
  });
  const both = decide({ key, isLiving: false, ledger: { ...empty, open: [reserved(0)], besides } });
  assert.equal(both.kind === "wait" && both.guard, "ledger-held");
});
