/** Whether a StatefulSet may be made smaller now, by the claims and the other zones of its group: one snapshot, one answer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, type PreparedDownscale, type Times } from "../../../../functions/prepare-downscale/decide.ts";
import { parseScaling } from "../../../../functions/shared/annotations/parse-scaling.ts";
import type { ClaimContent, KnownClaim } from "../../../../functions/shared/ledger/claim.ts";
import { claimOf, nowMs, type ZoneOptions, zone } from "../advance-zone-rollout/given.ts";

const minute = 60_000;
const sizes = { from: { start: 0, replicas: 3 }, to: { start: 0, replicas: 2 } };
const uids = { a: "uid-of-a", "a-2": "uid-of-a-2" };

interface Given extends Partial<Omit<PreparedDownscale, "times" | "around">> {
  readonly zones?: PreparedDownscale["around"]["zones"];
  readonly times?: Partial<Times>;
}

/** `a` is to lose its highest pod. Its group has other zones, and a ledger that is an hour old. */
function decided({ zones = [], times = {}, ...changes }: Given = {}) {
  const own = zone("a", "nnn");
  const asked = { resource: "statefulsets", namespace: "db", name: "a", ...sizes } as PreparedDownscale["asked"];
  const content = {
    ...{ id: "mine", kind: "scale-down", zone: "a", members: [{ first: 2, last: 2 }], by: "prepare-downscale" },
    ...{ stampMs: nowMs, phase: "telling", terms: "asked", uids },
  } as ClaimContent;
  const snapshot: PreparedDownscale = {
    ...{ asked, nowMs, content, ours: [], foreign: [], isGrouped: true, missing: "" },
    change: { zone: "a", uid: "uid-of-a", ...sizes, pods: new Map([["a-2", "uid-of-a-2"]]) },
    around: { zones: [own, ...zones] as never, departed: [], strayClaims: [] },
    times: { ledger: {}, isLedgerMalformed: false, ledgerSinceMs: nowMs - 60 * minute, tracker: new Map(), ...times },
    ...changes,
  };
  return decide(snapshot);
}

/** The kind of an answer, or its guard. */
const outcome = (given: Given = {}) => {
  const answer = decided(given);
  return "guard" in answer ? answer.guard : answer.kind;
};
const messageOf = (given: Given) => {
  const answer = decided(given);
  return "message" in answer ? answer.message : "";
};

/** A zone that was made smaller a short time ago, by its own word, if `agoMs` is given. */
function limited(name: string, agoMs?: number, options: ZoneOptions = {}) {
  const annotations: Record<string, string> =
    agoMs === undefined ? {} : { "grafana.com/last-downscale": new Date(nowMs - agoMs).toISOString() };
  const labels = { "grafana.com/min-time-between-zones-downscale": "10m" };
  const scaling = parseScaling({ name, uid: `uid-of-${name}`, resourceVersion: "5", labels, annotations });
  const whole = { updateRevision: "new", updatedReplicas: 3, countedReplicas: 3 };
  return zone(name, "nnn", { scaling, ...whole, ...options });
}

const confirmed = (changes: Partial<ClaimContent> = {}): KnownClaim =>
  claimOf("a:2", "scale-down", { phase: "confirmed", uids, ...changes });

test("pods are told where nothing is against it, with the claims of other functions that the change joins", () => {
  assert.deepEqual(decided(), { kind: "tells", besides: [] });
  const foreign = confirmed();
  const own = zone("a", "nnn", { claims: [foreign] });
  const around = { zones: [own] as never, departed: [], strayClaims: [] };
  const answer = decided({ foreign: [foreign], around } as Given);
  assert.deepEqual(answer, { kind: "tells", besides: [foreign] });
  const mine = confirmed({ id: "own" });
  assert.deepEqual(decided({ ours: [mine] }), { kind: "joins", claims: [mine] });
  assert.deepEqual(decided({ ours: [mine], foreign: [foreign] }), { kind: "joins", claims: [mine, foreign] });
});

test("a claim that the change does not join holds it back, of this zone as of another one", () => {
  const foreign = confirmed();
  const volume = claimOf("a:1-2", "volume", { id: "volume" });
  const besides = zone("a", "nnn", { claims: [foreign, volume] });
  const around = (...zones: readonly unknown[]) => ({ zones: zones as never, departed: [], strayClaims: [] });
  assert.equal(outcome({ foreign: [foreign], around: around(besides) } as Given), "zone-removing-volume");
  const other = limited("b", undefined, { claims: [confirmed({ zone: "b" })] });
  const joined = zone("a", "nnn", { claims: [foreign] });
  const given = { foreign: [foreign], around: around(joined, other), isGrouped: false } as Given;
  assert.equal(outcome(given), "zone-scaling-down");
  assert.match(messageOf(given), /^downscale of statefulsets\/a in db from 3 to 2 replicas is not allowed: /);
});

test("min-time-between-zones: the first other zone that was made smaller counts, and without a group name none does", () => {
  const zones = [limited("b", 4 * minute), limited("c", 5 * minute)];
  assert.equal(outcome({ zones }), "min-time-between-zones");
  assert.match(messageOf({ zones }), /: b was made smaller at /);
  assert.equal(outcome({ zones, isGrouped: false }), "tells");
  assert.equal(outcome({ zones: [limited("b", 11 * minute)] }), "tells");
  assert.equal(outcome({ zones: [zone("b", "nnn", { updatedReplicas: 3 })] }), "tells", "it has no such settings");
});

test("a zone of which no downscale is known counts from its ledger, unless it was made after that", () => {
  const zones = (createdMs: number) => [limited("b", undefined, { createdMs })];
  const times = { ledgerSinceMs: nowMs - 5 * minute };
  const older = zones(nowMs - 6 * minute);
  assert.equal(outcome({ zones: older, times }), "min-time-between-zones");
  assert.equal(outcome({ zones: zones(times.ledgerSinceMs), times }), "min-time-between-zones");
  assert.equal(outcome({ zones: zones(times.ledgerSinceMs + 1), times }), "tells");
  const known = { ...times, ledger: { b: nowMs - 4 * minute } };
  assert.equal(outcome({ zones: zones(nowMs - 3 * minute), times: known }), "min-time-between-zones", "it is known");
});

test("zone-updating: the first zone whose pods or status are not of the wanted revision, with what is known of it", () => {
  const updating = (name: string, drawing: string, options: ZoneOptions = {}) =>
    zone(name, drawing, { updateRevision: "new", updatedReplicas: 3, countedReplicas: 3, ...options });
  const first = [updating("b", "nno"), updating("c", "noo")];
  assert.equal(outcome({ zones: first }), "zone-updating");
  assert.match(messageOf({ zones: first }), /b is being updated: 1 of its pods/);
  assert.match(messageOf({ zones: [updating("b", "nnn", { updateRevision: undefined })] }), /status of b is behind/);
  assert.match(messageOf({ zones: [updating("b", "nnn", { updatedReplicas: 1 })] }), /status 2 pods of b are on/);
  assert.equal(outcome({ zones: [updating("b", "nnn")] }), "tells");
});

test("pod-missing: a pod that is not there cannot be told, and everything else is reported before that", () => {
  assert.equal(outcome({ missing: "2" }), "pod-missing");
  assert.equal(outcome({ missing: "2", zones: [limited("b", minute)] }), "min-time-between-zones");
});
