/** What kubectl sluice restart writes, and what it refuses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { phaseKey, RestartStage } from "../../functions/advance-process-restart/stage.ts";
import { Harness, namespace } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

const pod = "group-a-0";

/** @returns what the command printed, and which requests it sent to write something */
async function run(stage: Harness, line: string) {
  const before = writes(stage).length;
  const printed = await sluice(stage, line);
  return { ...printed, wrote: writes(stage).slice(before) };
}

test("restart of a pod writes schedule once, says how to follow it, and the function restarts it; --dry-run writes nothing", async () => {
  const stage = await new RestartStage().begun();
  const pretended = await run(stage, `restart group ${pod} --dry-run`);
  assert.deepEqual([pretended.code, pretended.wrote, stage.phaseOf(pod)], [0, [], undefined]);
  assert.match(pretended.out, /^would be done: .+restart-phase: schedule is written on pod group-a-0\n$/);
  const { code, out, wrote } = await run(stage, `restart group ${pod}`);
  assert.deepEqual([code, wrote, stage.phaseOf(pod)], [0, ["patch pods"], "schedule"]);
  assert.match(out, new RegExp(`schedule is written on pod ${pod}\\. kubectl sluice why group -n ${namespace} shows`));
  const again = await run(stage, `restart group ${pod}`);
  assert.deepEqual([again.code, again.wrote], [1, []]);
  assert.deepEqual(again.err, [`pod ${pod} has the phase schedule already: --cancel withdraws that`]);
  await stage.until("the end", () => stage.phaseOf(pod) === undefined);
  assert.equal(stage.manager(pod).starts, 2);
});

test("restart of a group writes schedule-rolling on its StatefulSet, and all of its processes restart", async () => {
  const stage = await new RestartStage().begun();
  const { code, out, wrote } = await run(stage, "restart group");
  assert.deepEqual([code, wrote, stage.phaseOfAll], [0, ["patch statefulsets"], "schedule-rolling"]);
  assert.match(out, /schedule-rolling is written on StatefulSet group-a\. /);
  assert.match((await run(stage, "restart group")).err[0] ?? "", /^StatefulSet group-a has the phase schedule-rolling/);
  const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);
  await stage.until("the end", () => names.every((name) => stage.manager(name).starts === 2), 60);
});

test("with --coordinated a group gets schedule-coordinated, unless a StatefulSet of it names no process manager", async () => {
  const stage = await new RestartStage().begun();
  assert.equal((await run(stage, "restart group --coordinated")).code, 0);
  assert.equal(stage.phaseOfAll, "schedule-coordinated");
  const mixed = await new Harness({ zones: ["a", "b"] }).prepare();
  const manager = { "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "token" };
  mixed.world.annotate({ namespace, name: "group-a" }, manager);
  const refused = await run(mixed, "restart group --coordinated");
  assert.deepEqual([refused.code, refused.wrote], [1, []]);
  assert.match(refused.err[0] ?? "", /^group-b names no process manager, and a coordinated restart needs all/);
  assert.match((await run(mixed, "restart group group-b-0")).err[0] ?? "", /^group-b names no process manager, or not/);
});

test("restart is refused without a process manager, for a group or pod that is not there, and for a pod that goes", async () => {
  const without = await new Harness({ zones: ["a"] }).prepare();
  const refused = await run(without, "restart group");
  assert.deepEqual([refused.code, refused.wrote], [1, []]);
  assert.match(
    refused.err[0] ?? "",
    /^no StatefulSet of group names a process manager, .+: write sluice\.dev\/restart-m/,
  );
  const stage = await new RestartStage().begun();
  assert.match((await run(stage, "restart other")).err[0] ?? "", /^there is no group "other"/);
  assert.deepEqual((await run(stage, "restart group group-a-9")).err, ["there is no pod group-a-9 in the group group"]);
  stage.interfere = ({ verb, given: [resource] }) => {
    if (verb === "get" && resource === "pods")
      stage.world.annotate({ namespace, name: pod }, { [phaseKey]: "stop" }, "pods");
  };
  const raced = await run(stage, `restart group ${pod}`);
  assert.deepEqual([raced.code, raced.wrote], [1, []]);
});

test("a pod whose restart has failed is restarted by its name, and until then its group is not", async () => {
  const stage = await new RestartStage().begun();
  stage.write(pod, "failed");
  const refused = await run(stage, "restart group");
  assert.deepEqual([refused.code, refused.wrote], [1, []]);
  assert.match(
    refused.err[0] ?? "",
    /^the restart of group-a-0 has failed, .+: kubectl sluice restart group group-a-0 tries/,
  );
  assert.equal((await run(stage, `restart group ${pod}`)).code, 0);
  assert.equal(stage.phaseOf(pod), "schedule");
});

test("--cancel withdraws the restart of one pod, or of all and of the StatefulSet first, and is refused where there is none", async () => {
  const stage = await new RestartStage().begun();
  assert.deepEqual((await run(stage, `restart group ${pod} --cancel`)).err, [
    `pod ${pod} has no phase, so that nothing can be withdrawn`,
  ]);
  assert.match((await run(stage, "restart group --cancel")).err[0] ?? "", /^no pod of group is to restart/);
  stage.write(pod, "schedule");
  stage.write("group-a-1", "schedule-rolling");
  stage.writeToAll("schedule-rolling");
  const { code, out, wrote } = await run(stage, "restart group --cancel");
  assert.deepEqual([code, wrote], [0, ["patch statefulsets", "patch pods", "patch pods"]]);
  assert.match(out, /is taken off StatefulSet group-a; .+: cancel is written on pod group-a-0, pod group-a-1\. /);
  assert.deepEqual([stage.phaseOfAll, stage.phaseOf(pod), stage.phaseOf("group-a-1")], [undefined, "cancel", "cancel"]);
  await stage.until("the end", () => stage.phaseOf(pod) === undefined);
  assert.equal(stage.manager(pod).starts, 1);
});

test("a write that meets another one is made again, under the revision of another read", async () => {
  const stage = await new RestartStage().begun();
  let others = 2;
  stage.interfere = ({ verb, given: [resource] }) => {
    if (verb === "patch" && resource === "pods" && others-- > 0)
      stage.world.annotate({ namespace, name: pod }, { "example.com/other": String(others) }, "pods");
  };
  const { code, wrote } = await run(stage, `restart group ${pod}`);
  assert.deepEqual([code, wrote.length, stage.phaseOf(pod)], [0, 3, "schedule"]);
});
