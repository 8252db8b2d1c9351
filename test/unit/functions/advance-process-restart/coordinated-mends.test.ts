/** Restarts of many processes that a slow process, or a pod with other files, would keep from their end. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { showTogether } from "../../../../functions/advance-process-restart/coordinated/show.ts";
import { parsePod } from "../../../../functions/shared/workloads/pods.ts";
import { namespace, played } from "../../shared/reconcile/harness.ts";
import { RestartStage, sumOf } from "./stage.ts";

const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);
const [one = "", other = ""] = names;

/** All processes stop, but one. */
async function stopping(stubborn: string): Promise<RestartStage> {
  const stage = await new RestartStage().begun();
  stage.manager(stubborn).ends = false;
  for (const name of names) stage.write(name, "schedule-coordinated");
  const isDown = (name: string) => name === stubborn || stage.manager(name).state === "stopped";
  await stage.until("the stop", () => names.every(isDown));
  return stage;
}

const isOver = (stage: RestartStage) => names.every((name) => stage.phaseOf(name) === undefined);

test("a process that ignores the stop of a withdrawn restart is killed after its grace period, and starts again", async () => {
  const stage = await stopping(one);
  const calls = stage.manager(one).calls.length;
  stage.write(other, "cancel");
  for (let seconds = 0; seconds < 30; seconds++) await stage.step();
  assert.deepEqual([stage.guard, stage.manager(other).state], ["restart-stopping", "started"]);
  assert.ok(!stage.manager(one).calls.some((call) => call.startsWith("kill")), "it has its grace period");
  await stage.until("the end", () => isOver(stage), 60);
  const later = stage
    .manager(one)
    .calls.slice(calls)
    .filter((call) => call.endsWith("202"));
  assert.deepEqual(
    later.map((call) => call.replace(/ .*/, "")),
    ["kill", "start"],
  );
  assert.deepEqual(
    [stage.claims, names.map((name) => [stage.manager(name).state, stage.manager(name).starts])],
    [[], names.map(() => ["started", 2])],
  );
});

test("a pod that is made anew with other files, before all are down, makes these the files of the restart", async () => {
  const stage = await stopping(one);
  const before = stage.pod(other).metadata.uid;
  stage.world.store.delete("pods", { namespace, name: other });
  const uid = () => stage.world.store.find("pods", { namespace, name: other })?.metadata.uid ?? before;
  await stage.until("the new pod", () => uid() !== before);
  for (const name of names) stage.manager(name).mounted = sumOf(2);
  stage.manager(other).running = sumOf(2);
  await stage.until("the stop of the new pod", () => stage.manager(other).state === "stopped");
  stage.manager(one).ends = true;
  await stage.until("the end", () => isOver(stage), 60);
  assert.deepEqual(
    [stage.claims, names.map((name) => [stage.manager(name).running, stage.manager(name).starts])],
    [[], names.map(() => [sumOf(2), 2])],
  );
});

test("while pods stand without their StatefulSet no process starts, and made again it ends the restart", async () => {
  const stage = await stopping(one);
  stage.manager(one).ends = true;
  const { metadata, spec } = stage.world.store.get("statefulsets", { namespace, name: "group-a" });
  // As its manifest has it: without the id of the restart.
  const { "sluice.dev/restart-id": id, ...annotations } = metadata.annotations ?? {};
  const { name, labels } = metadata;
  assert.ok(id);
  stage.world.removeStatefulSet({ namespace, name }, "Orphan");
  for (let seconds = 0; seconds < 12; seconds++) await stage.step();
  assert.deepEqual([stage.claims[0]?.phase, names.map((pod) => stage.manager(pod).starts)], ["stopping", [1, 1, 1]]);
  stage.world.store.create("statefulsets", namespace, { metadata: { name, labels, annotations }, spec } as never);
  await stage.until("the end", () => isOver(stage), 60);
  assert.deepEqual([stage.claims, names.map((pod) => stage.manager(pod).starts)], [[], [2, 2, 2]]);
});

test("a StatefulSet that is gone for good keeps no other pod from showing the restart", async () => {
  const stage = await new RestartStage().begun();
  const claims = [{ id: "together/group-z", zone: "group-z", phase: "stopping" }];
  await played(stage.timeline, showTogether(stage.context, namespace, claims, [parsePod(stage.pod(one) as never)]));
  assert.equal(stage.phaseOf(one), "stop-coordinated");
});
