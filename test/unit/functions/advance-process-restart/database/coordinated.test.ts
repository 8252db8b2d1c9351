/** Restarts of all nodes of a database at once: its setting and its marker are gone at the end. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { DatabaseStage } from "./stage.ts";

const names = [2, 1, 0].map((ordinal) => `group-a-${ordinal}`);

async function begun(elsewhere: readonly string[] = []): Promise<DatabaseStage> {
  const stage = new DatabaseStage(elsewhere);
  await stage.begun();
  for (const one of names) stage.write(one, "schedule-coordinated");
  return stage;
}

const isOver = (stage: DatabaseStage) => names.every((one) => stage.phaseOf(one) === undefined);

/** What is left of a restart: nothing. */
function assertWhole(stage: DatabaseStage, when: string): void {
  const starts = names.map((one) => stage.manager(one).starts);
  assert.deepEqual([starts, stage.claims, stage.allocation], [[2, 2, 2], [], [undefined, undefined]], when);
}

test("all nodes of a database restart together: allocation is restricted before the first stop, and free when all are members", async () => {
  const stage = await begun();
  await stage.until("the stop", () => stage.manager("group-a-0").calls.length > 0);
  const [value, marker] = stage.allocation;
  assert.equal(value, "primaries");
  assert.match(marker ?? "", /^coordinated-.*;previous=$|^coordinated-/);
  await stage.until("the end", () => isOver(stage), 60);
  assertWhole(stage, "at the end");
  assert.equal(stage.writes.filter((one) => one === "POST /_flush").length, 1, "one flush for all");
});

test("a function that is dead after any of its writes or calls leaves a restart of all nodes that the next one ends", async () => {
  const counted = await begun();
  await counted.until("the end", () => isOver(counted), 60);
  const { length } = counted.writes;
  assert.ok(length > 20, counted.writes.join(", "));
  for (let mostWrites = 1; mostWrites < length; mostWrites++) {
    const stage = await begun();
    stage.mostWrites = mostWrites;
    await stage.untilDead();
    stage.takeOver();
    await stage.until(`the end after write ${mostWrites}`, () => isOver(stage) && stage.claims.length === 0, 80);
    assertWhole(stage, `dead after write ${mostWrites}`);
  }
});

test("pods that are ready only when all copies are allocated get them: the setting is undone once all nodes are members", async () => {
  const stage = await begun();
  const target = { namespace: "db", name: "group-a-1" };
  await stage.until("the stop", () => stage.manager("group-a-1").state === "stopped");
  stage.world.kubelet.breakPod(target, "Unready");
  await stage.until("the release", () => stage.claims[0]?.hold === false);
  assert.deepEqual(stage.allocation, [undefined, undefined]);
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.equal(stage.claims.length, 1, "the claim waits for the pod");
  stage.world.kubelet.healPod(target);
  await stage.until("the end", () => isOver(stage), 60);
  assertWhole(stage, "at the end");
});

test("members-elsewhere: nothing stops while a member is no pod of the group, unless its StatefulSet does without that rule", async () => {
  const stage = await begun(["node-of-a-machine"]);
  for (let steps = 0; steps < 20; steps++) await stage.step();
  assert.deepEqual([stage.claims, stage.manager("group-a-0").calls], [[], []]);
  const key = { namespace: "db", name: "group-a" };
  stage.world.annotate(key, { "sluice.dev/restart-unchecked": "members-elsewhere" });
  await stage.until("the end", () => stage.claims.length === 0 && isOver(stage), 80);
  assertWhole(stage, "at the end");
});

test("a database of which no node answers keeps no restart of all from its end, and its setting stays as it was", async () => {
  const stage = await begun();
  stage.isSilent = true;
  await stage.until("the barrier", () => stage.claims[0]?.phase === "starting", 60);
  stage.isSilent = false;
  await stage.until("the end", () => stage.claims.length === 0 && isOver(stage), 80);
  assertWhole(stage, "at the end");
});

test("database-unknown: a database that refuses its setting keeps a restart of all waiting, and nothing stops", async () => {
  const stage = await begun();
  stage.standIn.interfere = (_node, { path }) =>
    path.startsWith("/_cluster/settings") ? { status: 403, body: "" } : undefined;
  await stage.until("the claims", () => stage.claims.length > 0, 40);
  for (let steps = 0; steps < 40; steps++) await stage.step();
  assert.deepEqual([stage.guard, stage.manager("group-a-0").calls], ["database-unknown", []]);
});

test("a database that has a master and has not recovered its state ends no restart: its settings are not what it shows", async () => {
  const stage = await begun();
  await stage.until("the barrier", () => stage.claims[0]?.phase === "starting", 60);
  stage.standIn.isRecovered = false;
  for (let steps = 0; steps < 30; steps++) await stage.step();
  assert.equal(stage.claims[0]?.hold, true, "its marker stands, although no read shows it");
  stage.standIn.isRecovered = true;
  await stage.until("the end", () => stage.claims.length === 0 && isOver(stage), 80);
  assertWhole(stage, "at the end");
});
