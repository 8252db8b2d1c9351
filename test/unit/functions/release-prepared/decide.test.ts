/** Whether a prepared downscale is over, goes on or is undone, and which zones' times Sluice may write, and when. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, findUntold, undoing, writableInMs } from "../../../../functions/release-prepared/decide.ts";
import { type ClaimContent, makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { podOf, statefulSetOf } from "../prepare-delayed-downscale/given.ts";

const stampMs = Date.parse("2026-01-31T12:00:00Z");

/** A scale-down of the ordinals 8 to 11, decided some time after its stamp. */
function decideAfter(
  ms: number,
  { replicas, pods, claim = {} }: { replicas: number; pods: readonly number[]; claim?: Partial<ClaimContent> },
) {
  const statefulSet = statefulSetOf({ replicas });
  const standing = new Map(pods.map((ordinal) => [ordinal, podOf(statefulSet, ordinal)]));
  const made = makeClaim({
    id: "prepared-1",
    kind: "scale-down",
    zone: statefulSet.name,
    members: [{ first: 8, last: 11 }],
    by: "release-prepared",
    stampMs,
    phase: "preparing",
    terms: "asked",
    ...claim,
  });
  const where = { statefulSet, pods: standing, volumes: new Map(), isAnchored: false };
  const decision = decide({ claim: made, where, nowMs: stampMs + ms });
  return decision.kind === "undo" ? { ...decision, stay: decision.stay.map(({ ordinal }) => ordinal) } : decision;
}

const stands = (requeueAfterMs: number) => ({ kind: "stands", requeueAfterMs });

test("a downscale that came is over once its pods are gone, and until then Sluice reconciles it every 10 s, however old it is", () => {
  assert.deepEqual(decideAfter(0, { replicas: 8, pods: [] }), { kind: "settled" });
  for (const ms of [0, 89_999, 3_600_000]) {
    assert.deepEqual(decideAfter(ms, { replicas: 8, pods: [8] }), stands(10_000));
  }
});

test("Sluice undoes a downscale that never came 90 s after its stamp, goes on with an undo after 7 s, and reconciles it every 10 s before", () => {
  const still = { replicas: 12, pods: [8] };
  const begun = { ...still, claim: { phase: undoing } };
  assert.deepEqual(decideAfter(0, still), stands(10_000));
  assert.deepEqual(decideAfter(79_999, still), stands(10_000));
  assert.deepEqual(decideAfter(80_001, still), stands(9_999));
  assert.deepEqual(decideAfter(89_999, still), stands(1));
  assert.equal(decideAfter(90_000, still).kind, "undo");
  assert.deepEqual(decideAfter(6_999, begun), stands(1));
  assert.equal(decideAfter(7_000, begun).kind, "undo");
});

test("in an undo Sluice notifies the pods that the StatefulSet wants, by ordinal, and the claim shrinks to the others", () => {
  const undo = decideAfter(90_000, { replicas: 10, pods: [11, 9, 10, 8] });
  const leave = [10, 11].map((ordinal) => ({ first: ordinal, last: ordinal }));
  assert.deepEqual(undo, { kind: "undo", stay: [8, 9], leave });
});

test("Sluice finds a zone's time that only the ledger has, if it prepares downscales, has no claim, and shows no later time", () => {
  const prepares = { preparesDownscale: true, lastDownscaleMs: undefined, malformed: [] };
  const zone = statefulSetOf({});
  const { scaling = assert.fail() } = zone;
  const found = (changes: Partial<typeof scaling>, downMs: number) =>
    findUntold([{ ...zone, scaling: { ...scaling, ...prepares, ...changes } }], { [zone.name]: downMs }, []);
  const untold = (downMs: number) => [{ zone: zone.name, downMs }];
  assert.deepEqual(found({}, stampMs), untold(stampMs));
  assert.deepEqual(found({ preparesDownscale: false }, stampMs), []);
  assert.deepEqual(findUntold([{ ...zone, scaling: undefined }], { [zone.name]: stampMs }, []), []);
  assert.deepEqual(found({ lastDownscaleMs: stampMs }, stampMs), []);
  assert.deepEqual(found({ lastDownscaleMs: stampMs }, stampMs + 1), untold(stampMs + 1));
  // Without an annotation the time counts from the epoch.
  assert.deepEqual([found({}, 0), found({}, 1)], [[], untold(1)]);
});

test("a zone's time may be written a minute after the downscale, and a minute after the second of its last change", () => {
  const inMs = (changedMs: number, ms: number) =>
    writableInMs({ zone: "db-a", downMs: stampMs }, changedMs, stampMs + ms);
  assert.deepEqual([inMs(0, 0), inMs(0, 59_999), inMs(0, 60_000), inMs(0, 3_600_000)], [60_000, 1, 0, 0]);
  const changedMs = stampMs + 5_000;
  assert.deepEqual([inMs(changedMs, 5_000), inMs(changedMs, 66_000), inMs(changedMs, 66_001)], [61_000, 0, 0]);
});
