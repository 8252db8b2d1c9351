/** What a fence decides about its claims: whose ledger is next, which claims go, and what each claim says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  lackingClaims,
  needsLedgers,
  needsSettled,
  type ZoneOnNode,
} from "../../../../functions/fence-node/decide-ledgers.ts";
import type { ClaimSeen, LedgersSeen } from "../../../../functions/fence-node/ledgers-seen.ts";
import type { FenceSnapshot } from "../../../../functions/fence-node/snapshot.ts";
import { fencePhases } from "../../../../functions/shared/annotations/fencing.ts";
import { armedAgent, away, back, brakesWith, claimed, clean, decided, inPhase, marked } from "./fence-snapshots.ts";

const [a, b] = [
  { namespace: "db", group: "a" },
  { namespace: "db", group: "b" },
];
const claim = (key: ClaimSeen["key"], changes: Partial<ClaimSeen> = {}): ClaimSeen => {
  return { key, id: `fence-1/${key.group}`, isReturned: false, isSettled: false, ...changes };
};
const ledgers = (changes: Partial<LedgersSeen>): Pick<FenceSnapshot, "ledgers"> => {
  return { ledgers: { claims: [], awaited: undefined, passed: [], ...changes } };
};
const outcome = (changes: Partial<FenceSnapshot>): readonly unknown[] => {
  const { guard, step, requeueAfterMs } = decided(changes);
  return step === undefined ? [guard, requeueAfterMs] : [guard, step.kind, ...("key" in step ? [step.key.group] : [])];
};
const minutes = 60_000;

test("announcing: a claimed fence goes on to the taint only when each ledger has its claims, or is passed by", () => {
  const awaited = { key: b, away: undefined };
  assert.deepEqual(outcome({ record: claimed, ...ledgers({ awaited }) }), ["announcing", "announce", "b"]);
  assert.deepEqual(outcome({ record: claimed, ...ledgers({ passed: ["full"], claims: [claim(a)] }) }), [
    "tainting",
    "taint",
  ]);
});

test("ledger: a ledger that cannot be written now holds the fence, and the record says so", () => {
  const awaited = { key: a, away: { why: "it is away", requeueAfterMs: 2_000 } };
  assert.deepEqual(outcome({ record: claimed, ...ledgers({ awaited }) }), ["ledger", "note-hold"]);
});

test("claims of an older fence go before those of this one come, the first ledger first", () => {
  const older = [claim(b, { id: "fence-0/b" }), claim(a, { id: "fence-0/a" }), claim(a)];
  const awaited = { key: b, away: undefined };
  const { step } = decided({ record: claimed, ...ledgers({ claims: older, awaited }) });
  assert.deepEqual(step, { kind: "take-claims", key: a, ids: ["fence-0/a"] });
});

test("a fence that is taken back takes out its claims before anything else", () => {
  const taken = { record: claimed, node: { ...clean, hasFenceTaint: true }, ...ledgers({ claims: [claim(a)] }) };
  assert.deepEqual(outcome(taken), ["taking-back", "take-claims", "a"]);
});

test("a node that is back has its claims noted as returned, before it is Ready", () => {
  const notReady = { ...back, isReady: false };
  const claims = [claim(a, { isReturned: true }), claim(b)];
  const recovering = { record: inPhase("recovering"), node: notReady };
  assert.deepEqual(outcome({ ...recovering, ...ledgers({ claims }) }), ["recovering", "return-claims", "b"]);
  const another = { ...notReady, systemUuid: "machine-2" };
  assert.notEqual(outcome({ ...recovering, node: another, ...ledgers({ claims }) })[1], "return-claims");
});

test("settling: after the Node its claims go as they settle, then the agent's Lease is cleaned, and the record goes last", () => {
  const record = inPhase("recovering");
  const noted = { ...record, settlingMs: record.sinceMs };
  const [settled, open] = [claim(a, { isSettled: true }), claim(b)];
  const at = (one: typeof record, claims: readonly ClaimSeen[], changes: Partial<FenceSnapshot> = {}) =>
    outcome({ record: one, node: clean, agent: armedAgent, ...ledgers({ claims }), ...changes });
  assert.deepEqual(at(record, [settled, open], { node: marked }), ["recovering", "clean-node"]);
  assert.deepEqual(at(record, [settled, open]), ["settling", "take-claims", "a"]);
  assert.deepEqual(at(record, [open]), ["recovering", "note-settling"]);
  assert.deepEqual(at(noted, [open]), ["settling", 3_000]);
  assert.deepEqual(at(noted, [open], { nowMs: record.sinceMs + 10 * minutes - 1 }), ["settling", 3_000]);
  assert.deepEqual(at(noted, [open], { nowMs: record.sinceMs + 10 * minutes }), ["settling", "take-claims", "b"]);
  assert.deepEqual(at(noted, []), ["recovering", "disarm"]);
  assert.deepEqual(at(noted, [], { agent: undefined }), ["recovering", "end"]);
});

test("while a machine stays off its claims go as they settle, and after 10 minutes all of them", () => {
  const record = inPhase("fenced");
  const at = (claims: readonly ClaimSeen[], passedMs: number) =>
    outcome({ record, node: away("fenced"), nowMs: record.sinceMs + passedMs, ...ledgers({ claims }) });
  assert.deepEqual(at([claim(a, { isSettled: true })], 0), ["settling", "take-claims", "a"]);
  assert.deepEqual(at([claim(a)], 10 * minutes - 1), ["fenced", 3_000]);
  assert.deepEqual(at([claim(a)], 10 * minutes), ["settling", "take-claims", "a"]);
  assert.deepEqual(at([], 0), ["fenced", 10_000]);
});

test("while pods go, claims that have settled go as well, and no other ones however long that takes", () => {
  const record = { ...inPhase("evacuating"), hold: "stuck" };
  const node = { ...away("evacuating"), shown: { fenceId: "fence-1", phase: "evacuating", hold: "stuck" } };
  const at = (claims: readonly ClaimSeen[]) =>
    outcome({ record, node, bound: ["pod db/a-0"], nowMs: record.sinceMs + 60 * minutes, ...ledgers({ claims }) });
  assert.deepEqual(at([claim(a), claim(b, { isSettled: true })]), ["settling", "take-claims", "b"]);
  assert.deepEqual(at([claim(a)]), ["stuck", 3_000]);
});

test("while a node that is back is not Ready its claims go as they settle; of one that was made again all go after 10 minutes", () => {
  const recovering = inPhase("recovering");
  const [settled, open] = [claim(a, { isSettled: true, isReturned: true }), claim(b, { isReturned: true })];
  const node = { ...back, isReady: false };
  const at = (evidence: "boot-id" | "time", claims: readonly ClaimSeen[], minutesLater: number) =>
    outcome({
      record: { ...recovering, evidence },
      node,
      nowMs: recovering.sinceMs + minutesLater * minutes,
      ...ledgers({ claims }),
    });
  assert.deepEqual(at("boot-id", [settled, open], 0), ["settling", "take-claims", "a"]);
  assert.equal(at("boot-id", [open], 60)[0], "not-ready");
  assert.equal(at("time", [open], 9)[0], "not-ready");
  assert.deepEqual(at("time", [open], 10), ["settling", "take-claims", "b"]);
});

test("while a node that was emptied stays out, its claims go as they settle, and after 10 minutes all of them", () => {
  const record = inPhase("recovering");
  const brakes = brakesWith({ fencedMs: new Map([["n", [1, 2, 3].map((ago) => record.sinceMs - ago)]]) });
  const emptied = { record, brakes, node: { ...back, isEmptied: true } };
  const at = (claims: readonly ClaimSeen[], minutesLater: number) =>
    outcome({ ...emptied, nowMs: record.sinceMs + minutesLater * minutes, ...ledgers({ claims }) });
  const [settled, open] = [claim(a, { isSettled: true, isReturned: true }), claim(b, { isReturned: true })];
  assert.deepEqual(outcome({ ...emptied, node: back, ...ledgers({ claims: [settled] }) }), ["loop", "empty-node"]);
  assert.deepEqual(at([settled, open], 0), ["settling", "take-claims", "a"]);
  assert.equal(at([open], 9)[0], "loop");
  assert.deepEqual(at([open], 10), ["settling", "take-claims", "b"]);
});

test("a mark that comes while claims settle ends the fence at once, and stays", () => {
  const record = { ...inPhase("recovering"), settlingMs: 0 };
  const at = (claims: readonly ClaimSeen[]) => outcome({ record, node: marked, ...ledgers({ claims }) });
  assert.deepEqual(at([claim(a)]), ["settling", "take-claims", "a"]);
  assert.deepEqual(at([]), ["recovering", "end"]);
});

test("a loop does not keep a fence whose Node was given back from ending for the mark that came since", () => {
  const record = inPhase("recovering");
  const brakes = brakesWith({ fencedMs: new Map([["n", [1, 2, 3].map((ago) => record.sinceMs - ago)]]) });
  const noted = { ...record, settlingMs: record.sinceMs };
  const given = { record: noted, brakes, node: marked, nowMs: record.sinceMs, ...ledgers({ claims: [claim(a)] }) };
  assert.deepEqual(outcome(given), ["settling", "take-claims", "a"]);
});

test("the ledgers are read before the fence is armed and after its evidence, and where a record is gone that a Node names", () => {
  const without = (node: FenceSnapshot["node"]) => needsLedgers({ record: undefined, node });
  assert.deepEqual([without(undefined), without(clean)], [false, false]);
  assert.equal(without({ ...clean, hasFenceTaint: true }), true);
  assert.equal(without({ ...clean, shown: { fenceId: "fence-1", phase: undefined, hold: undefined } }), true);
  assert.equal(needsLedgers({ record: "unreadable", node: marked }), false);
  const reading = fencePhases.filter((phase) => needsLedgers({ record: inPhase(phase), node: marked }));
  assert.deepEqual(
    reading,
    fencePhases.filter((phase) => phase !== "armed" && phase !== "stopped"),
  );
  const settled = fencePhases.filter((phase) => needsSettled({ record: inPhase(phase) }));
  assert.deepEqual(settled, ["evacuating", "fenced", "recovering"]);
  assert.equal(needsSettled({ record: "unreadable" }), false);
});

const making = { fenceId: "fence-1", by: "fence-node", stampMs: 1 };
const pods = (...ordinals: readonly number[]) =>
  ordinals.map((ordinal) => ({ ordinal, uid: `uid-${ordinal}`, containers: [`app-${ordinal}`] }));

test("each StatefulSet gets a claim with the uids and containers of its pods, neighbours as one range", () => {
  const zones: readonly ZoneOnNode[] = [
    { zone: "x", pods: pods(4, 2, 3, 7) },
    { zone: "y", pods: pods(0) },
  ];
  const [x, y, ...more] = lackingClaims(zones, [], making);
  assert.deepEqual([x?.id, y?.id, more], ["fence-1/x", "fence-1/y", []]);
  assert.deepEqual(JSON.parse(x?.line ?? ""), {
    ...{ id: "fence-1/x", kind: "node", zone: "x", members: "2-4,7", phase: "announced", terms: "announced" },
    uids: { "x-2": "uid-2", "x-3": "uid-3", "x-4": "uid-4", "x-7": "uid-7" },
    containers: { "x-2": ["app-2"], "x-3": ["app-3"], "x-4": ["app-4"], "x-7": ["app-7"] },
    ...{ by: "fence-node", stampMs: 1 },
  });
});

test("a claim that names all pods is not written again, and one that lacks a pod names it besides the others", () => {
  const known = lackingClaims([{ zone: "x", pods: pods(1) }], [], making);
  assert.deepEqual(lackingClaims([{ zone: "x", pods: pods(1) }], known, { ...making, stampMs: 9 }), []);
  const [wider] = lackingClaims([{ zone: "x", pods: pods(2) }], known, { ...making, stampMs: 9 });
  assert.deepEqual(
    [wider?.members, wider?.uids, wider?.stampMs],
    [[{ first: 1, last: 2 }], { "x-1": "uid-1", "x-2": "uid-2" }, 1],
  );
  const ranged = lackingClaims([{ zone: "x", pods: pods(1, 2, 5) }], [], making);
  const [late] = lackingClaims([{ zone: "x", pods: pods(7) }], ranged, making);
  assert.deepEqual(late?.members, [
    { first: 1, last: 2 },
    { first: 5, last: 5 },
    { first: 7, last: 7 },
  ]);
  const replaced = [{ ordinal: 1, uid: "another", containers: [] }];
  const [changed] = lackingClaims([{ zone: "x", pods: replaced }], known, making);
  assert.deepEqual([changed?.uids, changed?.containers], [{ "x-1": "another" }, { "x-1": [] }]);
});
