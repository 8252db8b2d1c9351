/** Restarts of one process from the phase on its pod to the end, wherever the function is killed. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace } from "../../shared/reconcile/harness.ts";
import { idKey, RestartStage, sumOf } from "./stage.ts";

const pod = "group-a-1";

test("a process restarts with the mounted files, and claim, phase and id go when it is back", async () => {
  const stage = await new RestartStage().begun();
  const manager = stage.manager(pod);
  manager.mounted = sumOf(2);
  stage.write(pod, "schedule");
  await stage.until("the stop", () => stage.phaseOf(pod) === "stop");
  const [claim] = stage.claims;
  assert.deepEqual(
    [claim?.kind, claim?.phase, claim?.terms, claim?.mode, claim?.epoch, claim?.sum, claim?.processes],
    ["process", "stopping", "announced", "single", 1, sumOf(2), { [pod]: "7 1" }],
  );
  assert.equal(stage.pod(pod).metadata.annotations?.[idKey], claim?.id);
  await stage.until("the start", () => stage.phaseOf(pod) === "start");
  await stage.until("the end", () => stage.phaseOf(pod) === undefined);
  assert.deepEqual(manager.calls, ["stop 1: 202", "start 2: 202"]);
  assert.deepEqual([manager.starts, manager.running, stage.claims], [2, sumOf(2), []]);
  assert.equal(stage.pod(pod).metadata.annotations?.[idKey], undefined);
  const events = stage.events.map((one) => one.split(" ")[0]);
  assert.ok(events.includes("ProcessRestartStarted"), events.join());
});

test("a function that is killed after any of its writes leaves a restart that the next one ends, with one new process", async () => {
  const counted = await new RestartStage().begun();
  counted.write(pod, "schedule");
  await counted.until("the end", () => counted.phaseOf(pod) === undefined);
  const isWrite = (verb: string) => verb === "patch";
  const writes = counted.calls.filter(({ verb }) => isWrite(verb)).length;
  assert.ok(writes >= 6, `${writes} writes`);
  for (let killedAfter = 1; killedAfter <= writes; killedAfter++) {
    const stage = await new RestartStage().begun();
    stage.write(pod, "schedule");
    let seen = 0;
    stage.interfere = ({ verb }) => {
      if (isWrite(verb) && ++seen > killedAfter) throw new Error("killed");
    };
    for (let steps = 0; steps < 12 && seen <= killedAfter; steps++) await stage.step().catch(() => {});
    stage.interfere = () => {};
    stage.anew();
    await stage.until(`the end after write ${killedAfter}`, () => stage.phaseOf(pod) === undefined);
    assert.deepEqual([stage.manager(pod).starts, stage.claims], [2, []], `killed after write ${killedAfter}`);
  }
});

test("zone-restarting-process: the next process of a group is stopped when the claim of the last one is out", async () => {
  const stage = await new RestartStage().begun();
  for (const one of [pod, "group-a-2"]) stage.write(one, "schedule");
  await stage.until("the first stop", () => stage.claims.length > 0);
  assert.deepEqual([stage.phaseOf("group-a-2"), stage.phaseOf(pod)], ["stop", "schedule"], "the highest ordinal first");
  await stage.step();
  assert.match(stage.guard ?? "", /^(restart-\w+|zone-restarting-process)$/);
  await stage.until("both ends", () => [pod, "group-a-2"].every((one) => stage.phaseOf(one) === undefined));
  assert.deepEqual([stage.manager(pod).starts, stage.manager("group-a-2").starts], [2, 2]);
});

test("a restart that is cancelled before the stop has arrived leaves the process as it is, and a late stop is refused", async () => {
  const stage = await new RestartStage().begun();
  stage.write(pod, "schedule");
  stage.silent.add(pod);
  await stage.step();
  assert.deepEqual([stage.guard, stage.claims], ["manager-silent", []]);
  stage.silent.clear();
  stage.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "pods") throw new Error("killed");
  };
  await stage.step().catch(() => {});
  assert.equal(stage.claims.length, 1, "the claim stands, and the stop was not sent");
  stage.interfere = () => {};
  stage.anew();
  stage.write(pod, "cancel");
  await stage.until("the end", () => stage.phaseOf(pod) === undefined);
  const manager = stage.manager(pod);
  assert.deepEqual([manager.calls, manager.starts, stage.claims], [["start 2: 202"], 1, []]);
});

test("a phase that is taken off while the process stops leaves no process down", async () => {
  const stage = await new RestartStage().begun();
  stage.write(pod, "schedule");
  await stage.until("the stop", () => stage.phaseOf(pod) === "stop");
  stage.write(pod, null);
  await stage.until("the end", () => stage.claims.length === 0);
  assert.equal(stage.manager(pod).state, "started");
});

test("a process that does not stop within the grace period of its pod is killed, and then started", async () => {
  const stage = await new RestartStage().begun();
  const manager = stage.manager(pod);
  manager.ends = false;
  stage.write(pod, "schedule");
  await stage.until("the end", () => stage.phaseOf(pod) === undefined, 60);
  assert.deepEqual(manager.calls.slice(-3), ["stop 1: 202", "kill 2: 202", "start 3: 202"]);
});

test("a restart that is cancelled while its process does not stop is not left waiting: the process is killed, and started", async () => {
  const stage = await new RestartStage().begun();
  const manager = stage.manager(pod);
  manager.ends = false;
  stage.write(pod, "schedule");
  await stage.until("the stop", () => manager.state === "stopping");
  stage.write(pod, "cancel");
  await stage.until("the end", () => stage.claims.length === 0, 90);
  assert.deepEqual([manager.state, manager.starts, stage.phaseOf(pod)], ["started", 2, undefined]);
});

test("three failed starts end a restart: the pod shows failed, an Event says why, and no claim is left", async () => {
  const stage = await new RestartStage().begun();
  stage.manager(pod).isWhole = false;
  stage.write(pod, "schedule");
  await stage.until("the failure", () => stage.phaseOf(pod) === "failed");
  assert.deepEqual(stage.claims, []);
  assert.ok(stage.events.some((one) => /^ProcessRestartFailed group-a-1: .*3 starts have failed/.test(one)));
});

test("a pod that changes while its failed restart ends shows failed all the same, so that no other pod gets its files", async () => {
  const stage = await new RestartStage().begun();
  const manager = stage.manager(pod);
  manager.isWhole = false;
  stage.write(pod, "schedule");
  let changes = 0;
  stage.interfere = ({ verb, resource }) => {
    if (verb !== "patch" || resource !== "pods" || manager.attempts < 3 || changes > 0) return;
    changes++;
    stage.world.annotate({ namespace, name: pod }, { other: "changed" }, "pods");
  };
  await stage.until("the failure", () => stage.phaseOf(pod) === "failed");
  await stage.until("the end", () => stage.claims.length === 0);
  assert.deepEqual([changes, stage.phaseOf(pod)], [1, "failed"]);
});

test("files that change before the stop has arrived are taken as they are then", async () => {
  const stage = await new RestartStage().begun();
  const manager = stage.manager(pod);
  stage.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "pods") manager.mounted = sumOf(3);
  };
  stage.write(pod, "schedule");
  await stage.until("the end", () => stage.phaseOf(pod) === undefined);
  // Another epoch for other files: otherwise the first call, if it is late, would stop the process without them.
  assert.deepEqual(manager.calls.slice(0, 2), ["stop 1: 412", "stop 2: 202"]);
  assert.deepEqual([manager.running, manager.starts], [sumOf(3), 2]);
});

test("restart-manager-missing, manager-silent: nothing is written before the process manager has answered", async () => {
  const unnamed = await new RestartStage({ "sluice.dev/restart-manager": "nowhere" }).begun();
  unnamed.write(pod, "schedule");
  await unnamed.step();
  assert.deepEqual([unnamed.guard, unnamed.claims], ["restart-manager-missing", []]);
  const foreign = await new RestartStage().begun();
  foreign.world.store.patch("secrets", { namespace: "db", name: "token" }, { data: { token: btoa("other") } } as never);
  foreign.write(pod, "schedule");
  await foreign.step();
  assert.deepEqual([foreign.guard, foreign.claims], ["manager-silent", []]);
  assert.match(foreign.verdicts.at(-1)?.message ?? "", /it answered 401: wrong token/);
});

test("a value that is no phase is reported once, and a phase that only Sluice writes is taken off", async () => {
  const stage = await new RestartStage().begun();
  stage.write(pod, "now");
  stage.write("group-a-2", "start");
  for (let steps = 0; steps < 3; steps++) await stage.step();
  const unknown = stage.events.filter((one) => one.startsWith("RestartPhaseUnknown"));
  assert.deepEqual(unknown.map((one) => one.split(":")[0]).sort(), [
    "RestartPhaseUnknown group-a-1",
    "RestartPhaseUnknown group-a-2",
  ]);
  assert.deepEqual([stage.phaseOf(pod), stage.phaseOf("group-a-2"), stage.claims], ["now", undefined, []]);
});

test("a process restarts although more pods than are asked at once come before it, and none of them answers or can restart", async () => {
  const stage = await new RestartStage({}, 20).begun();
  for (let ordinal = 19; ordinal > 0; ordinal--) {
    const name = `group-a-${ordinal}`;
    stage.write(name, ordinal % 2 === 0 ? "failed" : "schedule");
    stage.silent.add(name);
  }
  stage.write("group-a-0", "schedule");
  await stage.until("the end", () => stage.phaseOf("group-a-0") === undefined);
  assert.equal(stage.manager("group-a-0").starts, 2);
});

test("pods that restart in their turn go one after the other, each once, by claims that ask for their place in the budget", async () => {
  const stage = await new RestartStage().begun();
  const names = [2, 1, 0].map((ordinal) => `group-a-${ordinal}`);
  for (const one of names) stage.write(one, "schedule-rolling");
  const begun: string[] = [];
  await stage.until("all ends", () => {
    for (const { id, mode, terms, processes = {} } of stage.claims) {
      const [name = ""] = Object.keys(processes);
      assert.deepEqual([stage.claims.length, mode, terms], [1, "rolling", "asked"], id);
      if (begun.at(-1) !== name) begun.push(name);
    }
    return names.every((one) => stage.phaseOf(one) === undefined);
  });
  assert.deepEqual(begun, names);
  assert.deepEqual(
    names.map((one) => stage.manager(one).starts),
    [2, 2, 2],
  );
});

test("the restart of a process in its turn that fails keeps the others as they are, until a person writes a phase on it", async () => {
  const stage = await new RestartStage().begun();
  stage.manager("group-a-2").isWhole = false;
  for (const one of [pod, "group-a-2"]) stage.write(one, "schedule-rolling");
  await stage.until("the failure", () => stage.phaseOf("group-a-2") === "failed");
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.deepEqual([stage.guard, stage.phaseOf(pod), stage.claims], ["restart-failed", "schedule-rolling", []]);
  stage.manager("group-a-2").isWhole = true;
  stage.write("group-a-2", "schedule-rolling");
  await stage.until("both ends", () => [pod, "group-a-2"].every((one) => stage.phaseOf(one) === undefined));
  assert.deepEqual([stage.manager(pod).starts, stage.manager("group-a-2").starts], [2, 2]);
});

test("a phase on a StatefulSet restarts each of its pods once, wherever the function is killed meanwhile", async () => {
  const names = [2, 1, 0].map((ordinal) => `group-a-${ordinal}`);
  for (let killedAfter = 0; killedAfter <= 4; killedAfter++) {
    const stage = await new RestartStage().begun();
    stage.writeToAll("schedule-rolling");
    let patched = 0;
    stage.interfere = ({ verb, resource }) => {
      if (verb === "patch" && resource !== "leases" && ++patched > killedAfter) throw new Error("killed");
    };
    await stage.step().catch(() => {});
    assert.equal(
      stage.phaseOfAll,
      killedAfter < 4 ? "schedule-rolling" : undefined,
      "taken off after all pods have it",
    );
    assert.deepEqual(stage.claims, [], "nothing restarts before that");
    stage.interfere = () => {};
    stage.anew();
    const isDone = () => names.every((one) => stage.phaseOf(one) === undefined) && stage.phaseOfAll === undefined;
    await stage.until(`all ends after ${killedAfter} writes`, isDone);
    const starts = names.map((one) => stage.manager(one).starts);
    assert.deepEqual(starts, [2, 2, 2], `killed after ${killedAfter} writes`);
  }
});

test("a phase on a StatefulSet passes by a pod that has one, or that restarts already", async () => {
  const stage = await new RestartStage().begun();
  stage.write("group-a-2", "schedule");
  stage.write("group-a-0", "cancelled");
  await stage.until("the stop", () => stage.phaseOf("group-a-2") === "stop");
  stage.writeToAll("schedule-rolling");
  await stage.until("the fan-out", () => stage.phaseOfAll === undefined);
  assert.match(stage.phaseOf("group-a-2") ?? "", /^(stop|start)$/);
  assert.deepEqual([stage.phaseOf(pod), stage.phaseOf("group-a-0")], ["schedule-rolling", "cancelled"]);
});

test("service-hides-unready: no process is stopped, and nothing is claimed, until its governing Service names pods that are not ready", async () => {
  const stage = await new RestartStage().begun();
  const { store } = stage.world;
  const service = { namespace, name: "group" };
  const publish = (publishNotReadyAddresses: boolean) =>
    store.patch("services", service, { spec: { publishNotReadyAddresses } });
  publish(false);
  stage.write(pod, "schedule");
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.equal(stage.guard, "service-hides-unready");
  store.delete("services", service);
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.equal(stage.guard, "service-missing");
  assert.deepEqual([stage.manager(pod).calls, stage.claims, stage.phaseOf(pod)], [[], [], "schedule"]);
  store.create("services", namespace, stage.service);
  await stage.until("the end", () => stage.phaseOf(pod) === undefined);
  assert.deepEqual(stage.manager(pod).calls, ["stop 1: 202", "start 2: 202"]);
});
