/** Restarts of a process whose database is named: what is changed in it is undone, wherever the function dies. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { allocationKey, markerKey } from "../../../../support/stand-in-database.ts";
import { idKey } from "../stage.ts";
import { DatabaseStage } from "./stage.ts";

const pod = "group-a-1";
const settings = "PUT /_cluster/settings";

async function begun(value?: string): Promise<DatabaseStage> {
  const stage = new DatabaseStage();
  await stage.begun();
  if (value !== undefined) stage.standIn.persistent[allocationKey] = value;
  stage.writes.length = 0;
  stage.write(pod, "schedule");
  return stage;
}

const ended = (stage: DatabaseStage, most?: number) =>
  stage.until("the end", () => stage.claims.length === 0 && stage.phaseOf(pod) === undefined, most);

/** The writes of one restart, in their order. */
const order = [
  ...["leases restricting", "pods", "leases restricting", settings],
  ...["leases flushing", "POST /_flush"],
  ...["leases stopping", "pods", "POST /es/stop"],
  ...["leases starting", "pods", "POST /es/start"],
  ...[settings, "leases", "pods"],
];

test("allocation is restricted under a claim and the database flushed before the stop, and all is undone before the claim goes", async () => {
  const stage = await begun();
  await stage.until("the marker", () => stage.allocation[1] !== undefined);
  const [claim] = stage.claims;
  assert.deepEqual([claim?.hold, stage.manager(pod).calls], [true, []]);
  assert.deepEqual(stage.allocation, ["primaries", `${claim?.id};previous=`]);
  assert.equal(stage.pod(pod).metadata.annotations?.[idKey], claim?.id);
  await ended(stage);
  assert.deepEqual(stage.writes, order);
  assert.deepEqual([stage.allocation, stage.manager(pod).starts], [[undefined, undefined], 2]);
  assert.equal(stage.standIn.count("POST", "/_flush"), 1);
});

test("a function that dies after any of its writes leaves a restart that the next one ends, with the setting that the user had", async () => {
  for (let most = 1; most <= order.length; most++) {
    const stage = await begun("new_primaries");
    stage.mostWrites = most;
    await stage.untilDead();
    assert.deepEqual(stage.writes, order.slice(0, most));
    stage.takeOver();
    await ended(stage);
    const dead = `dead after ${most} writes: ${order[most - 1]}`;
    assert.deepEqual(stage.allocation, ["new_primaries", undefined], dead);
    assert.deepEqual([stage.manager(pod).starts, stage.standIn.count("POST", "/_flush") <= 1], [2, true], dead);
  }
});

/** Each crash point: the writes that were made, and what the next process finds. */
const crashes: readonly (readonly [string, number, (stage: DatabaseStage) => void, readonly string[]])[] = [
  ["the claim is written, and the setting is not", 3, (stage) => unrestricted(stage), [settings, "POST /_flush"]],
  ["the setting is written, and no flush was sent", 4, (stage) => marked(stage), ["POST /_flush", "POST /es/stop"]],
  ["the database is flushed, and no stop was sent", 6, (stage) => marked(stage), ["POST /es/stop", "POST /es/start"]],
  ["the process is back, and the setting stands", 12, (stage) => marked(stage), [settings]],
  ["the setting is undone, and the claim stands", 13, (stage) => unrestricted(stage), []],
];

function unrestricted(stage: DatabaseStage): void {
  assert.deepEqual([stage.allocation, stage.claims[0]?.hold], [["all", undefined], true]);
}

function marked(stage: DatabaseStage): void {
  assert.deepEqual(stage.allocation, ["primaries", `${stage.claims[0]?.id};previous=all`]);
}

for (const [what, most, check, next] of crashes)
  test(`dead when ${what}: the next process goes on from there, and repeats nothing that was done`, async () => {
    const stage = await begun("all");
    stage.mostWrites = most;
    await stage.untilDead();
    check(stage);
    const { epoch } = stage.claims[0] ?? {};
    stage.takeOver();
    await ended(stage);
    const requests = stage.writes.slice(most).filter((one) => /^P(OST|UT)/.test(one));
    assert.deepEqual(requests.slice(0, next.length), next);
    if (next.length < 1) assert.deepEqual(requests, []);
    assert.deepEqual([stage.allocation, stage.manager(pod).starts], [["all", undefined], 2]);
    if (most < 9) assert.deepEqual(stage.manager(pod).calls[0], `stop ${epoch}: 202`);
  });

test("database-unknown: while the database does not answer, the process runs, and after a quarter of an hour the restart has failed", async () => {
  const stage = await begun();
  stage.isSilent = true;
  await stage.until("the guard", () => stage.guard === "database-unknown");
  assert.match(stage.verdicts.at(-1)?.message ?? "", /allocation is not restricted for group-a-1: GET group-a-0/);
  const [before] = stage.claims;
  for (let steps = 0; steps < 10; steps++) await stage.step();
  assert.equal(stage.claims[0]?.line, before?.line, "nothing is written while the state is unknown");
  stage.isSilent = false;
  await ended(stage);
  const other = await begun();
  other.isSilent = true;
  await other.until("the claim", () => other.claims.length > 0);
  await other.goOn(900_000);
  other.forget();
  await other.until("the failure", () => other.phaseOf(pod) === "failed");
  assert.deepEqual([other.claims, other.manager(pod).starts, other.manager(pod).calls], [[], 1, []]);
});

test("database-unknown: a setting that the database refuses keeps the restart waiting, with its answer, and is tried again", async () => {
  const stage = await begun();
  stage.standIn.interfere = (_node, { method }) =>
    method === "PUT" ? { status: 403, body: "no permission" } : undefined;
  await stage.until("the guard", () => stage.guard === "database-unknown");
  for (let steps = 0; steps < 9; steps++) await stage.step();
  assert.match(stage.verdicts.at(-1)?.message ?? "", /could not be restricted: .*is answered 403: no permission/);
  const tries = stage.writes.filter((one) => one === "leases restricting").length;
  assert.ok(tries >= 2 && tries <= 4, `${tries} writes in 10 s`);
  assert.deepEqual(stage.manager(pod).calls, []);
  stage.standIn.interfere = () => undefined;
  await ended(stage);
});

test("a flush that fails, or is never answered, stops no restart", async () => {
  for (const reply of [{ status: 500, body: "" }, "break"] as const) {
    const stage = await begun();
    stage.standIn.interfere = (_node, { path }) => (path === "/_flush" ? reply : undefined);
    await ended(stage);
    assert.deepEqual([stage.manager(pod).starts, stage.allocation], [2, [undefined, undefined]]);
  }
});

test("restart-joining: a process that runs is back only when its node is a member, and while that is unknown the claim stands", async () => {
  const stage = await begun();
  await stage.until("the start", () => stage.phaseOf(pod) === "start");
  stage.standIn.node(pod).isMember = false;
  await stage.until("the guard", () => stage.guard === "restart-joining");
  stage.isSilent = true;
  await stage.until("the other guard", () => stage.guard === "database-unknown");
  assert.match(stage.verdicts.at(-1)?.message ?? "", /whether the node of group-a-1 is a member is unknown/);
  assert.deepEqual([stage.claims.length, stage.allocation[0]], [1, "primaries"]);
  stage.isSilent = false;
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.equal(stage.claims.length, 1);
  stage.standIn.node(pod).isMember = true;
  await ended(stage);
  assert.deepEqual(stage.allocation, [undefined, undefined]);
});

test("a pod that is ready only when all copies are allocated gets them: the setting is undone as soon as its node is a member", async () => {
  const stage = await begun("all");
  await stage.until("the stop", () => stage.manager(pod).state === "stopped");
  const target = { namespace: "db", name: pod };
  stage.world.kubelet.breakPod(target, "Unready");
  await stage.until("the release", () => stage.allocation[1] === undefined && stage.claims[0]?.hold === false);
  assert.deepEqual([stage.allocation, stage.claims.length], [["all", undefined], 1]);
  stage.anew();
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.equal(stage.claims.length, 1, "the claim waits for the pod");
  const changes = stage.standIn.count("PUT", "/_cluster/settings");
  stage.world.kubelet.healPod(target);
  await ended(stage);
  assert.equal(stage.standIn.count("PUT", "/_cluster/settings"), changes, "it is undone once");
});

test("database-unknown: a setting that cannot be undone keeps claim and marker, and a message says so", async () => {
  const stage = await begun();
  await stage.until("the start", () => stage.manager(pod).starts === 2);
  stage.standIn.interfere = (_node, { method }) => (method === "PUT" ? { status: 500, body: "" } : undefined);
  await stage.until("the guard", () => stage.guard === "database-unknown");
  assert.match(stage.verdicts.at(-1)?.message ?? "", /back, and allocation is still restricted: .*answered 500/);
  assert.deepEqual([stage.claims[0]?.hold, stage.allocation[0]], [true, "primaries"]);
  stage.standIn.interfere = () => undefined;
  stage.anew();
  await ended(stage);
  assert.deepEqual(stage.allocation, [undefined, undefined]);
});

test("what the user sets while the process restarts stands afterwards", async () => {
  const stage = await begun("all");
  await stage.until("the stop", () => stage.manager(pod).state === "stopped");
  stage.standIn.persistent[allocationKey] = "new_primaries";
  stage.standIn.transient[allocationKey] = "none";
  await ended(stage);
  assert.deepEqual(stage.allocation, ["new_primaries", undefined]);
  assert.deepEqual(stage.standIn.transient, { [allocationKey]: "none" });
});

test("a restart that is taken back undoes the setting, whether or not the process was stopped", async () => {
  for (const state of ["started", "stopped"]) {
    const stage = await begun("all");
    await stage.until("the marker", () => stage.allocation[1] !== undefined);
    await stage.until(state, () => stage.manager(pod).state === state);
    stage.write(pod, "cancel");
    await ended(stage);
    assert.deepEqual([stage.allocation, stage.manager(pod).state], [["all", undefined], "started"]);
    assert.equal(stage.manager(pod).starts, state === "started" ? 1 : 2);
  }
});

test("three failed starts undo the setting; where the database does not answer then, the claim goes all the same", async () => {
  for (const isSilent of [false, true]) {
    const stage = await begun("all");
    stage.manager(pod).isWhole = false;
    await stage.until("the start", () => stage.phaseOf(pod) === "start");
    stage.isSilent = isSilent;
    await stage.until("the failure", () => stage.phaseOf(pod) === "failed");
    assert.deepEqual([stage.claims, stage.allocation[0]], [[], isSilent ? "primaries" : "all"]);
  }
});

test("a pod that a person deletes while its process restarts ends the restart by its successor, and the setting is undone", async () => {
  const stage = await begun("all");
  await stage.until("the stop", () => stage.manager(pod).state === "stopped");
  stage.world.store.delete("pods", { namespace: "db", name: pod } as never);
  await stage.until("the end", () => stage.claims.length === 0, 120);
  assert.deepEqual(stage.allocation, ["all", undefined]);
  assert.equal(stage.standIn.persistent[markerKey], undefined);
});
