/** Markers of restarts that no ledger has: they are undone, and no other setting is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  confirmAfterMs,
  isConfirmed,
  noteMarker,
} from "../../../../../functions/advance-process-restart/database/decide-left-over.ts";
import { advanceProcessRestart } from "../../../../../functions/advance-process-restart/function.ts";
import { allocationKey, markerKey } from "../../../../support/stand-in-database.ts";
import { played } from "../../../shared/reconcile/harness.ts";
import { DatabaseStage } from "./stage.ts";

const pod = "group-a-1";

/** A database with a marker that no ledger has. */
async function leftBehind(value: string): Promise<DatabaseStage> {
  const stage = new DatabaseStage();
  await stage.begun();
  stage.standIn.persistent[allocationKey] = value;
  stage.standIn.persistent[markerKey] = "restart-gone-1;previous=all";
  return stage;
}

const groupsDue = async (stage: DatabaseStage): Promise<number> => {
  const { schedule } = advanceProcessRestart;
  return (await played(stage.timeline, schedule?.listDue(stage.context, "db") ?? assert.fail("no schedule"))).length;
};

test("a marker whose restart is in no ledger is undone when it is seen again ten seconds later", async () => {
  const stage = await leftBehind("primaries");
  await stage.step();
  const begunMs = stage.cluster.monotonicMs();
  await stage.until("the release", () => stage.allocation[1] === undefined);
  const tookMs = stage.cluster.monotonicMs() - begunMs;
  assert.ok(tookMs >= 9_000 && tookMs < 20_000, `${tookMs} ms`);
  assert.deepEqual(stage.allocation, ["all", undefined]);
  assert.equal(stage.standIn.count("PUT", "/_cluster/settings"), 1);
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.equal(stage.standIn.count("PUT", "/_cluster/settings"), 1, "nothing is undone twice");
});

test("of a left-over beside a value that the user has set, only the marker goes", async () => {
  const stage = await leftBehind("new_primaries");
  await stage.until("the release", () => stage.allocation[1] === undefined);
  assert.deepEqual(stage.allocation, ["new_primaries", undefined]);
});

test("a marker that Sluice has not written stays, and so does a setting without one", async () => {
  const stage = await leftBehind("primaries");
  for (const marker of ["written-by-hand", undefined]) {
    if (marker === undefined) delete stage.standIn.persistent[markerKey];
    else stage.standIn.persistent[markerKey] = marker;
    for (let steps = 0; steps < 15; steps++) await stage.step();
    assert.deepEqual(stage.allocation, ["primaries", marker]);
  }
});

test("a restart that begins beside a left-over brings back what the user had before both", async () => {
  const stage = await leftBehind("primaries");
  stage.write(pod, "schedule");
  await stage.until("the claim", () => stage.claims.length > 0);
  await stage.until("the end", () => stage.claims.length === 0 && stage.phaseOf(pod) === undefined);
  assert.deepEqual([stage.allocation, stage.manager(pod).starts], [["all", undefined], 2]);
});

test("a setting that arrives after its restart has ended is undone, and for two minutes its group is read every ten seconds", async () => {
  const stage = new DatabaseStage();
  await stage.begun();
  assert.equal(await groupsDue(stage), 0);
  stage.write(pod, "schedule");
  await stage.until("the marker", () => stage.allocation[1] !== undefined);
  const [, late = ""] = stage.allocation;
  await stage.until("the end", () => stage.claims.length === 0 && stage.phaseOf(pod) === undefined);
  Object.assign(stage.standIn.persistent, { [allocationKey]: "primaries", [markerKey]: late });
  assert.equal(await groupsDue(stage), 1);
  await stage.until("the release", () => stage.allocation[1] === undefined);
  assert.equal(stage.allocation[0], undefined);
  await stage.goOn(120_000);
  assert.equal(await groupsDue(stage), 0);
});

test("a restart that failed while the database was silent leaves a marker that is undone when it answers", async () => {
  const stage = new DatabaseStage();
  await stage.begun();
  stage.manager(pod).isWhole = false;
  stage.write(pod, "schedule");
  await stage.until("the start", () => stage.phaseOf(pod) === "start");
  stage.isSilent = true;
  await stage.until("the failure", () => stage.phaseOf(pod) === "failed");
  for (let steps = 0; steps < 15; steps++) await stage.step();
  assert.equal(stage.allocation[0], "primaries");
  stage.isSilent = false;
  await stage.until("the release", () => stage.allocation[1] === undefined);
  assert.equal(stage.allocation[0], undefined);
});

test("a marker is confirmed by two reads ten seconds apart, and is none of a restart under way", () => {
  const marker = { id: "r1", previous: undefined };
  const first = noteMarker(marker, [], undefined, 5);
  assert.deepEqual(first, { id: "r1", sinceMs: 5 });
  assert.deepEqual(noteMarker(marker, [], first, 700), first);
  assert.deepEqual(noteMarker({ ...marker, id: "r2" }, [], first, 700), { id: "r2", sinceMs: 700 });
  assert.equal(noteMarker(undefined, [], first, 700), undefined);
  for (const id of ["r1", "r1/a"]) assert.equal(noteMarker(marker, [{ id } as never], first, 700), undefined);
  assert.deepEqual(noteMarker(marker, [{ id: "r10" } as never], first, 700), first);
  assert.deepEqual(
    [confirmAfterMs, isConfirmed(first, 10_004), isConfirmed(first, 10_005), isConfirmed(undefined, 99_999)],
    [10_000, false, true, false],
  );
});
