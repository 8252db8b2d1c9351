import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type ObservedPod, Tally, type TallyOptions } from "./tally.ts";

interface PodState {
  readonly uid: string;
  readonly image?: string;
  readonly ready?: boolean;
  readonly terminating?: boolean;
}

function pod(zone: string, ordinal: number, sample: PodState): ObservedPod {
  const { uid, image = "new", ready = true, terminating = false } = sample;
  return {
    metadata: {
      name: `bench-${zone}-${ordinal}`,
      uid,
      resourceVersion: "1",
      labels: { zone },
      ...(terminating ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}),
    },
    spec: { containers: [{ image }] },
    status: { conditions: [{ type: "Ready", status: ready ? "True" : "False" }] },
  };
}

/** Two zones of two old pods. */
function fresh(except?: TallyOptions["except"]): Tally {
  const isNew = ({ spec }: ObservedPod) => spec.containers[0]?.image === "new";
  const tally = new Tally({ zones: ["a", "b"], pods: 2, isNew, ...(except && { except }) });
  for (const zone of ["a", "b"])
    for (const ordinal of [0, 1]) tally.begin(pod(zone, ordinal, { uid: `${zone}${ordinal}`, image: "old" }));
  return tally;
}

/** One pod goes and comes back. */
function roll(tally: Tally, zone: string, ordinal: number, nowMs: number): void {
  const uid = `${zone}${ordinal}`;
  tally.apply("MODIFIED", pod(zone, ordinal, { uid, image: "old", terminating: true }), nowMs);
  tally.apply("DELETED", pod(zone, ordinal, { uid, image: "old", terminating: true }), nowMs + 1);
  tally.apply("ADDED", pod(zone, ordinal, { uid: `${uid}'`, ready: false }), nowMs + 2);
  tally.apply("MODIFIED", pod(zone, ordinal, { uid: `${uid}'` }), nowMs + 3);
}

describe("the tally", () => {
  it("follows a rollout to its end", () => {
    const tally = fresh();
    assert.equal(tally.up, 4);
    roll(tally, "a", 0, 10);
    roll(tally, "a", 1, 20);
    roll(tally, "b", 1, 30);
    assert.equal(tally.doneMs, undefined);
    roll(tally, "b", 0, 40);
    assert.equal(tally.doneMs, 43);
    assert.equal(tally.mostZonesDown, 1);
    assert.deepEqual(tally.report(), [
      { zone: "a", mostDown: 1, firstDownMs: 10, doneMs: 23 },
      { zone: "b", mostDown: 1, firstDownMs: 30, doneMs: 43 },
    ]);
  });

  it("does not wait for the excepted pod once the old one has gone, and waits for every other pod", () => {
    const tally = fresh({ zone: "b", name: "bench-b-1" });
    roll(tally, "a", 0, 10);
    roll(tally, "a", 1, 20);
    roll(tally, "b", 0, 30);
    assert.equal(tally.doneMs, undefined, "it is still the old one");
    tally.apply("DELETED", pod("b", 1, { uid: "b1", image: "old" }), 40);
    assert.equal(tally.doneMs, 40);
    const other = fresh({ zone: "b", name: "bench-b-1" });
    for (const [zone, ordinal] of [
      ["a", 0],
      ["b", 0],
      ["b", 1],
    ] as const)
      roll(other, zone, ordinal, 50);
    other.apply("DELETED", pod("a", 1, { uid: "a1", image: "old" }), 60);
    assert.equal(other.doneMs, undefined, "one of another zone is missing");
  });

  it("counts terminating, missing and unready pods in one zone, and two zones at once", () => {
    const tally = fresh();
    tally.apply("MODIFIED", pod("a", 0, { uid: "a0", terminating: true }), 1);
    tally.apply("MODIFIED", pod("a", 1, { uid: "a1", ready: false }), 2);
    tally.apply("DELETED", pod("a", 0, { uid: "a0", terminating: true }), 3);
    assert.equal(tally.mostZonesDown, 1);
    tally.apply("MODIFIED", pod("b", 0, { uid: "b0", ready: false }), 4);
    assert.equal(tally.mostZonesDown, 2);
    assert.deepEqual(
      tally.report().map(({ mostDown }) => mostDown),
      [2, 1],
    );
    assert.equal(tally.up, 1);
  });

  it("ignores a late event of a pod that a namesake has replaced", () => {
    const tally = fresh();
    tally.apply("MODIFIED", pod("a", 0, { uid: "a0", terminating: true }), 1);
    tally.apply("ADDED", pod("a", 0, { uid: "a0'" }), 2);
    tally.apply("DELETED", pod("a", 0, { uid: "a0", terminating: true }), 3);
    assert.equal(tally.up, 4);
  });

  it("counts a zone as not done if a pod broke after it was done", () => {
    const tally = fresh();
    for (const zone of ["a", "b"]) for (const ordinal of [0, 1]) roll(tally, zone, ordinal, 1);
    assert.notEqual(tally.doneMs, undefined);
    tally.apply("MODIFIED", pod("a", 0, { uid: "a0'", ready: false }), 9);
    assert.equal(tally.doneMs, undefined);
  });
});
