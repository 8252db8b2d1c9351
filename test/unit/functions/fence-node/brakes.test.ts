/** What a claimed fence needs before anything happens to its node: a slot, and no storm. Each boundary has a case. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BrakesView, ClusterNode } from "../../../../functions/fence-node/brakes-view.ts";
import type { FenceVerdict } from "../../../../functions/fence-node/snapshot.ts";
import type { FenceSlot, FenceSlots } from "../../../../functions/shared/annotations/fencing-slots.ts";
import { brakeDefaults, brakesWith, claimed, decided, inPhase, marked } from "./fence-snapshots.ts";

const nowMs = claimed.sinceMs + 3_600_000;
const minuteMs = 60_000;
const slotOf = (node: string, takenMs = nowMs): FenceSlot => ({ fenceId: `fence-of-${node}`, node, takenMs });
const own: FenceSlot = { fenceId: "fence-1", node: "n", takenMs: nowMs };
const nodeOf = (name: string, changes: Partial<ClusterNode> = {}): ClusterNode => ({
  ...{ name, isReady: true, isMarked: false, isControlPlane: false, hasRecord: false },
  ...changes,
});
/** The fenced node and nine more, the first `unhealthy` of all marked. */
const tenNodes = (unhealthy: number): readonly ClusterNode[] =>
  ["n", ..."bcdefghij"].map((name, at) => nodeOf(name, { isMarked: at < unhealthy }));
const healthy = tenNodes(1);

/** The fence of node `n` is claimed and its record has no hold yet: a hold is noted first. */
function decidedWith(contents: Partial<FenceSlots>, changes: Partial<BrakesView> = {}): FenceVerdict {
  const brakes = brakesWith(contents, { nodes: healthy, ...changes });
  return decided({ record: claimed, node: marked, nowMs, brakes });
}
const blockedBy = (contents: Partial<FenceSlots>, changes?: Partial<BrakesView>) => decidedWith(contents, changes).hold;
const settingsWith = (changes: Partial<BrakesView["settings"]>) => ({ settings: { ...brakeDefaults, ...changes } });
function takenBy({ step }: FenceVerdict): FenceSlots {
  assert.ok(step?.kind === "take-slot", step?.kind);
  return step.contents;
}

test("a claimed fence takes a slot before its node gets the taint, and is counted with it", () => {
  const verdict = decidedWith({});
  assert.equal(verdict.guard, "taking-slot");
  assert.deepEqual(takenBy(verdict), { slots: [own], fencedMs: new Map([["n", [nowMs]]]), stormMs: undefined });
  assert.equal(decidedWith({ slots: [own] }).step?.kind, "taint");
});

test("a fence waits with `budget` while all slots are taken, and the message names their number and nodes", () => {
  const verdict = decidedWith({ slots: [slotOf("b")] });
  assert.equal(verdict.guard, "budget");
  assert.equal(verdict.step?.kind, "note-hold");
  assert.match(
    verdict.message,
    /^n waits for a slot: 1 of 1 are taken \(b\)\. A slot is free when .* 10 minutes after/,
  );
  const two = settingsWith({ fenceMaxConcurrent: 2 });
  assert.deepEqual(takenBy(decidedWith({ slots: [slotOf("b")] }, two)).slots, [slotOf("b"), own]);
  assert.equal(blockedBy({ slots: [slotOf("b"), slotOf("c")] }, two), "budget");
});

test("a slot counts against others for less than 10 minutes, in either direction of a clock that was set", () => {
  for (const ms of [10 * minuteMs - 1, -(10 * minuteMs - 1)])
    assert.equal(blockedBy({ slots: [slotOf("b", nowMs - ms)] }), "budget", `${ms} ms`);
  for (const ms of [10 * minuteMs, -10 * minuteMs]) {
    const old = slotOf("b", nowMs - ms);
    assert.deepEqual(takenBy(decidedWith({ slots: [old] })).slots, [old, own], `${ms} ms`);
  }
});

test("the slot of a fence that has evidence or has ended is free, and goes with the next slot that is taken", () => {
  const ended = { ended: new Set(["fence-of-b"]) };
  assert.deepEqual(takenBy(decidedWith({ slots: [slotOf("b")] }, ended)).slots, [own]);
});

test("a fence whose own slot is too old takes it again, and counts once", () => {
  const old = { ...own, takenMs: nowMs - 10 * minuteMs };
  const fencedMs = new Map([["n", [old.takenMs]]]);
  assert.deepEqual(takenBy(decidedWith({ slots: [old], fencedMs })), { slots: [own], fencedMs, stormMs: undefined });
  assert.equal(blockedBy({ slots: [old, slotOf("b")] }), "budget");
  const ofOthers = new Map([["b", [1]]]);
  const { fencedMs: counted } = takenBy(decidedWith({ slots: [], fencedMs: ofOthers }));
  assert.deepEqual(Object.fromEntries(counted), { b: [1], n: [nowMs] });
});

test("a Lease of the slots that cannot be read gives no slot, and is not written", () => {
  const slots = { lease: { uid: "u", resourceVersion: "1" }, contents: "unreadable" } as const;
  const verdict = decidedWith({}, { slots });
  assert.deepEqual(
    [verdict.guard, verdict.hold, verdict.step?.kind],
    ["slots-unreadable", "slots-unreadable", "note-hold"],
  );
  assert.match(verdict.message, /Lease fence-slots, or delete it$/);
  const after = decided({ record: inPhase("fenced"), node: marked, brakes: brakesWith({}, { slots }) });
  assert.notEqual(after.step?.kind, "release-slot");
});

test("a storm is more than 40 % of the nodes, marked or not Ready", () => {
  assert.equal(blockedBy({ stormMs: undefined }, { nodes: tenNodes(4) }), undefined);
  const noted = { stormMs: nowMs - 1 };
  const five = decidedWith(noted, { nodes: tenNodes(5) });
  assert.equal(five.hold, "storm");
  assert.match(five.message, /: 5 of 10 nodes are marked or not Ready \(n, b, c, d, e\), more than 40 %$/);
  const notReady = tenNodes(4).map((node) => (node.name === "j" ? { ...node, isReady: false } : node));
  assert.equal(blockedBy(noted, { nodes: notReady }), "storm");
});

test("a single node never makes a storm, whatever its share; two do", () => {
  assert.equal(blockedBy({}, { nodes: [nodeOf("n", { isMarked: true, isReady: false })] }), undefined);
  const two = [nodeOf("n", { isMarked: true }), nodeOf("b", { isReady: false })];
  assert.equal(decidedWith({}, { nodes: two }).guard, "storm");
  const zero = settingsWith({ fenceStormPercent: 0 });
  assert.equal(blockedBy({}, { nodes: healthy, ...zero }), undefined);
  assert.equal(decidedWith({}, { nodes: tenNodes(2), ...zero }).guard, "storm");
  assert.equal(blockedBy({}, { nodes: two, ...settingsWith({ fenceStormPercent: 100 }) }), undefined);
});

test("a fence that waits for a brake is reconciled again after 10 seconds", () => {
  const brakes = brakesWith({ slots: [slotOf("b")] }, { nodes: healthy });
  const { requeueAfterMs, step } = decided({ record: { ...claimed, hold: "budget" }, node: marked, nowMs, brakes });
  assert.deepEqual([requeueAfterMs, step?.kind], [10_000, "show"]);
});

test("a storm is noted when it is seen first and every 20 seconds, also while a fence waits for a slot", () => {
  const seen = (stormMs: number | undefined, changes: Partial<BrakesView> = {}) =>
    decidedWith({ stormMs, slots: [slotOf("b")] }, { nodes: tenNodes(5), ...changes }).step;
  const step = seen(undefined);
  assert.ok(step?.kind === "note-storm");
  assert.deepEqual(step.contents, { slots: [slotOf("b")], fencedMs: new Map(), stormMs: nowMs });
  assert.equal(seen(nowMs - 20_000)?.kind, "note-storm");
  assert.equal(seen(nowMs - 19_999)?.kind, "note-hold");
  const short = settingsWith({ fenceStormCooldownMs: 1_000 });
  assert.equal(seen(nowMs - 500, short)?.kind, "note-storm");
  assert.equal(seen(nowMs - 499, short)?.kind, "note-hold");
  assert.equal(seen(nowMs + 20_000)?.kind, "note-storm", "by a clock that was set back");
  assert.equal(seen(undefined, settingsWith({ fenceStormCooldownMs: 2 }))?.kind, "note-storm");
  assert.equal(seen(undefined, settingsWith({ fenceStormCooldownMs: 0 }))?.kind, "note-hold");
});

test("a storm goes on for 5 minutes after it was seen last, and not for ever where a clock was set back", () => {
  const verdict = decidedWith({ stormMs: nowMs - 5 * minuteMs + 1_500 });
  assert.equal(verdict.hold, "storm");
  assert.match(verdict.message, /^n waits for 2 s more: no more than 40 % .* 300 s have to pass after a storm$/);
  assert.equal(blockedBy({ stormMs: nowMs - 5 * minuteMs }), undefined);
  assert.equal(blockedBy({ stormMs: nowMs + 5 * minuteMs }), undefined);
});

test("a control-plane node waits while another one is marked, not Ready, or has a record or a slot", () => {
  const two = settingsWith({ fenceMaxConcurrent: 2 });
  const withOther = (other: Partial<ClusterNode>, isControlPlane = true) => ({
    ...two,
    nodes: [nodeOf("n", { isControlPlane }), nodeOf("b", { isControlPlane: true, ...other }), ...healthy.slice(2)],
  });
  for (const other of [{ isMarked: true }, { isReady: false }, { hasRecord: true }]) {
    assert.equal(blockedBy({}, withOther(other)), "control-plane", JSON.stringify(other));
    assert.equal(blockedBy({}, withOther(other, false)), undefined, JSON.stringify(other));
    assert.equal(blockedBy({}, withOther({ ...other, isControlPlane: false })), undefined, JSON.stringify(other));
  }
  const slot = decidedWith({ slots: [slotOf("b")] }, withOther({}));
  assert.equal(slot.hold, "control-plane");
  assert.match(
    slot.message,
    /^n is of the control plane, and 1 of its 1 other nodes are marked, not Ready, or fenced: b$/,
  );
  assert.equal(blockedBy({}, withOther({})), undefined);
});

test("a fence gives its slot back at evidence, and keeps it until then", () => {
  const contents = { slots: [own, slotOf("b")], stormMs: 7, fencedMs: new Map([["n", [nowMs]]]) };
  for (const phase of ["stopped", "evacuating", "fenced", "recovering"] as const) {
    const { guard, step } = decided({ record: inPhase(phase), node: marked, nowMs, brakes: brakesWith(contents) });
    assert.ok(step?.kind === "release-slot", phase);
    assert.deepEqual([guard, step.contents], ["releasing", { ...contents, slots: [slotOf("b")] }], phase);
  }
  const armed = decided({ record: inPhase("armed"), node: marked, nowMs, brakes: brakesWith(contents) });
  assert.equal(armed.step?.kind, "taint");
});
