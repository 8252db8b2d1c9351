/** A process that a person parks stops in its turn, stays down, and starts again when the annotation is taken off. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace } from "../../shared/reconcile/harness.ts";
import { DatabaseStage } from "./database/stage.ts";
import { idKey, phaseKey, RestartStage, sumOf } from "./stage.ts";

const stopKey = "sluice.dev/stop";
const pod = "group-a-1";
const other = "group-a-2";

function park(stage: RestartStage, name = pod, value: string | null = "true"): void {
  stage.world.annotate({ namespace, name }, { [stopKey]: value }, "pods");
}

/** The stand-in knows nothing of shards. */
function ofDatabase(): DatabaseStage {
  const stage = new DatabaseStage();
  stage.world.annotate({ namespace, name: "group-a" }, { "sluice.dev/restart-unchecked": "*" });
  return stage;
}

const phaseOfClaim = (stage: RestartStage) => stage.claims.map(({ phase }) => phase).join();
const parked = (stage: RestartStage, most?: number) =>
  stage.until("the rest", () => phaseOfClaim(stage) === "parked" && stage.claims[0]?.hold !== true, most);
const ended = (stage: RestartStage, name = pod) =>
  stage.until("the end", () => stage.claims.length === 0 && stage.phaseOf(name) === undefined);
const reasonsOf = (stage: RestartStage) => stage.events.map((one) => one.split(" ")[0]);

async function quiet(stage: RestartStage, steps = 5): Promise<void> {
  for (let step = 0; step < steps; step++) await stage.step();
}

async function begun(stage: RestartStage = new RestartStage()): Promise<RestartStage> {
  await stage.begun();
  park(stage);
  return stage;
}

test("a parked process stays down for hours under an asked claim, and starts with the files of now when the annotation goes", async () => {
  const stage = await begun();
  const manager = stage.manager(pod);
  await parked(stage);
  const [claim] = stage.claims;
  assert.deepEqual([claim?.mode, claim?.terms, claim?.epoch, stage.phaseOf(pod)], ["parked", "asked", 1, "stop"]);
  assert.equal(stage.pod(pod).metadata.annotations?.[idKey], claim?.id);
  assert.ok(reasonsOf(stage).includes("ProcessParked"), `${stage.events}`);
  await stage.goOn(7_200_000);
  stage.forget();
  await quiet(stage);
  assert.deepEqual([manager.calls, phaseOfClaim(stage), stage.guard], [["stop 1: 202"], "parked", "done"]);
  manager.mounted = sumOf(2);
  park(stage, pod, null);
  await stage.until("the start", () => stage.phaseOf(pod) === "start");
  assert.equal(stage.claims[0]?.sum, sumOf(2));
  await ended(stage);
  assert.deepEqual(manager.calls, ["stop 1: 202", "start 2: 202"]);
  assert.deepEqual([manager.starts, manager.running], [2, sumOf(2)]);
  assert.ok(reasonsOf(stage).includes("ProcessUnparked"), `${stage.events}`);
  assert.ok(!reasonsOf(stage).includes("ProcessRestartFailed"), `${stage.events}`);
});

for (const value of ["false", "True", "", "yes"])
  test(`the value ${JSON.stringify(value)} parks nothing, an Event says what to write, and a parked process starts again`, async () => {
    const stage = await new RestartStage().begun();
    park(stage, pod, value);
    await quiet(stage, 3);
    assert.deepEqual([stage.claims, stage.manager(pod).calls], [[], []]);
    const warned = stage.events.filter((one) => one.startsWith(`MalformedAnnotation ${pod}`));
    assert.equal(warned.length, 1, `${stage.events}`);
    park(stage);
    await parked(stage);
    park(stage, pod, value);
    await ended(stage);
    assert.equal(stage.manager(pod).starts, 2);
  });

/** What is written, to park and to start again, by a function that dies after each write. */
async function dying(make: () => RestartStage, sleepMs: number): Promise<void> {
  const start = async (stage: RestartStage) => {
    await stage.until("the rest", () => phaseOfClaim(stage) === "parked");
    await stage.goOn(sleepMs);
    stage.forget();
    await parked(stage);
    park(stage, pod, null);
    await ended(stage);
  };
  const counted = await begun(make());
  let writes = 0;
  counted.interfere = ({ verb }) => {
    if (verb === "patch") writes++;
  };
  await start(counted);
  assert.ok(writes >= 6, `${writes} writes`);
  for (let killedAfter = 0; killedAfter <= writes; killedAfter++) {
    const stage = await begun(make());
    const { interfere } = stage;
    let seen = 0;
    stage.interfere = (call) => {
      if (call.verb === "patch" && ++seen > killedAfter) throw new Error("killed");
    };
    for (let steps = 0; steps < 100 && seen <= killedAfter; steps++) {
      await stage.step().catch(() => {});
      if (phaseOfClaim(stage) !== "parked") continue;
      if (stage.claims[0]?.hold !== true) park(stage, pod, null);
      else await stage.goOn(5_000);
    }
    stage.interfere = interfere;
    stage.anew();
    if (stage.pod(pod).metadata.annotations?.[stopKey] !== undefined) await start(stage);
    await ended(stage);
    const what = `killed after write ${killedAfter}`;
    assert.deepEqual([stage.manager(pod).starts, stage.manager(other).starts], [2, 1], what);
    if (stage instanceof DatabaseStage) assert.deepEqual(stage.allocation, [undefined, undefined], what);
  }
}

test("a function that is killed after any of its writes leaves a parked process that the next one starts, once", () =>
  dying(() => new RestartStage(), 0));

test("the same with a database: allocation is as the user had it, at rest and afterwards", () =>
  dying(() => ofDatabase(), 61_000));

test("restart-parked: allocation is free again a minute after the stop, and only then another process of the group stops", async () => {
  const stage = ofDatabase();
  await begun(stage);
  await stage.until("the rest", () => phaseOfClaim(stage) === "parked");
  assert.equal(stage.allocation[0], "primaries");
  stage.write(other, "schedule");
  await quiet(stage, 40);
  assert.deepEqual([stage.guard, stage.allocation[0], stage.claims.length], ["restart-parked", "primaries", 1]);
  await stage.until("the other stop", () => stage.manager(other).calls.length > 0, 60);
  assert.ok(stage.allocation[1]?.startsWith(`restart-${stage.pod(other).metadata.uid}`), `${stage.allocation}`);
  await ended2(stage);
  assert.deepEqual([stage.allocation, phaseOfClaim(stage)], [[undefined, undefined], "parked"]);
});

const ended2 = (stage: RestartStage) =>
  stage.until("the end of the other", () => stage.claims.length === 1 && stage.phaseOf(other) === undefined, 60);

test("a restriction that arrives late for a process at rest is undone", async () => {
  const stage = ofDatabase();
  await begun(stage);
  await parked(stage, 120);
  const [claim] = stage.claims;
  stage.standIn.persistent["cluster.routing.allocation.enable"] = "primaries";
  stage.standIn.persistent["cluster.metadata.sluice_restart_hold"] = `${claim?.id};previous=all`;
  await stage.until("the release", () => stage.allocation[1] === undefined, 60);
  assert.deepEqual([stage.allocation[0], phaseOfClaim(stage)], ["all", "parked"]);
});

test("of two pods that are to be parked where one may be down, the second waits for the budget while the first is parked", async () => {
  const stage = await begun();
  park(stage, other);
  await stage.until("the rest", () => phaseOfClaim(stage) === "parked");
  await quiet(stage, 8);
  assert.deepEqual([stage.manager(other).calls.length, stage.manager(pod).calls.length], [1, 0], "the highest first");
  assert.deepEqual([stage.guard, stage.claims.length], ["budget", 1]);
  park(stage, other, null);
  await stage.until("the other rest", () => stage.manager(pod).state === "stopped" && phaseOfClaim(stage) === "parked");
  assert.equal(stage.manager(other).state, "started");
});

test("the annotation taken off before the stop, or while it stops, leaves a process that runs", async () => {
  for (const isReached of [
    (stage: RestartStage) => stage.claims.length > 0,
    (stage: RestartStage) => stage.manager(pod).state === "stopped",
  ]) {
    const stage = await begun();
    await stage.until("the moment", () => isReached(stage));
    park(stage, pod, null);
    await ended(stage);
    assert.equal(stage.manager(pod).state, "started");
  }
});

test("the annotation taken off while allocation is restricted stops nothing, and allocation is free again", async () => {
  const stage = ofDatabase();
  await begun(stage);
  await stage.until("the marker", () => stage.allocation[1] !== undefined);
  park(stage, pod, null);
  await ended(stage);
  const { starts, state, calls } = stage.manager(pod);
  assert.deepEqual([starts, state, stage.allocation], [1, "started", [undefined, undefined]]);
  assert.ok(!calls.some((one) => one.startsWith("stop")), `${calls}`);
});

test("a process that ignores TERM is killed and started though the annotation is taken off while it stops", async () => {
  const stage = await begun();
  const manager = stage.manager(pod);
  manager.ends = false;
  await stage.until("the stop", () => manager.state === "stopping");
  park(stage, pod, null);
  await stage.until("the end", () => stage.claims.length === 0 && stage.phaseOf(pod) === undefined, 80);
  assert.deepEqual([manager.state, manager.starts], ["started", 2], `${manager.calls}`);
  assert.ok(
    manager.calls.some((one) => one.startsWith("kill")),
    `${manager.calls}`,
  );
});

test("the annotation written again while the process starts parks it again, after it is back", async () => {
  const stage = await begun();
  await parked(stage);
  const [first] = stage.claims;
  park(stage, pod, null);
  await stage.until("the start", () => stage.phaseOf(pod) === "start");
  park(stage);
  await stage.until("another rest", () => phaseOfClaim(stage) === "parked" && stage.claims[0]?.id !== first?.id);
  assert.equal(stage.manager(pod).starts, 2);
});

test("a restart that is asked of a parked pod does nothing, an Event says so, and the phase stands as before", async () => {
  for (const phase of ["schedule", "schedule-rolling", "cancel", null]) {
    const stage = await begun();
    await parked(stage);
    stage.write(pod, phase);
    await quiet(stage, 4);
    assert.deepEqual([stage.phaseOf(pod), phaseOfClaim(stage), stage.manager(pod).starts], ["stop", "parked", 1]);
    const reported = stage.events.filter((one) => one.includes("does nothing, because the process of"));
    assert.equal(reported.length, phase === null ? 0 : 1, `${stage.events}`);
  }
});

test("a restart of all waits for a parked process and says what ends that, and then the pod takes part in it", async () => {
  const stage = await begun();
  await parked(stage);
  stage.writeToAll("schedule-coordinated");
  await stage.goOn(15_000);
  await quiet(stage, 20);
  assert.equal(stage.guard, "restart-beside-others");
  assert.match(stage.verdicts.at(-1)?.message ?? "", /parked until sluice\.dev\/stop is taken off/);
  park(stage, pod, null);
  const names = ["group-a-0", pod, other];
  await stage.until(
    "the end",
    () => stage.claims.length === 0 && names.every((one) => stage.phaseOf(one) === undefined),
    90,
  );
  assert.deepEqual(
    names.map((one) => stage.manager(one).starts),
    [2, 3, 2],
  );
});

test("a pod that comes under the name of a parked one runs, and the claim ends when it is ready", async () => {
  const stage = await begun();
  await parked(stage);
  const before = stage.pod(pod).metadata.uid;
  stage.world.store.delete("pods", { namespace, name: pod }, { gracePeriodSeconds: 0 });
  await stage.until("the end", () => stage.claims.length === 0, 60);
  assert.notEqual(stage.pod(pod).metadata.uid, before);
  await quiet(stage, 3);
  assert.deepEqual([stage.claims, stage.phaseOf(pod), stage.manager(pod).calls], [[], undefined, []]);
});

test("manager-silent: a process that is wanted again and whose server is silent is reported; one that is wanted so is not", async () => {
  const stage = await begun();
  await parked(stage);
  stage.silent.add(pod);
  await quiet(stage, 3);
  assert.equal(stage.guard, "done");
  park(stage, pod, null);
  await stage.until("the guard", () => stage.guard === "manager-silent");
  stage.silent.delete(pod);
  await ended(stage);
  assert.equal(stage.manager(pod).starts, 2);
});

test("restart-failed: a pod that has failed is not parked before a person writes cancel on it", async () => {
  const stage = await new RestartStage().begun();
  stage.write(pod, "failed");
  park(stage);
  await quiet(stage, 3);
  assert.deepEqual([stage.guard, stage.manager(pod).calls], ["restart-failed", []]);
  stage.write(pod, "cancel");
  await parked(stage);
  assert.equal(stage.pod(pod).metadata.annotations?.[phaseKey], "stop");
});
