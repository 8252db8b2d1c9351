/** Files that change what all nodes must have in common never reach one process alone. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { restartSettings } from "../../../../functions/shared/annotations/restart-files.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { DriftStage, dataOf, names, namespace, reasonKey, steps } from "./drift-stage.ts";

const [one = "", other = ""] = names;
const joint = "cluster.name: other";
const [oldSum, jointSum] = ["a: 1", joint].map((file) => sumOfSecret({ data: dataOf(file) }));
const mountedIn = (stage: DriftStage) => stage.world.store.find("secrets", { namespace, name: "mounted" })?.data;
const reasonOf = (stage: DriftStage, name: string) => stage.pod(name).metadata.annotations?.[reasonKey];
const runningIn = (stage: DriftStage) => names.map((name) => stage.manager(name).running);
const none = [undefined, undefined, undefined];

function setMode(stage: DriftStage, mode: string | null): void {
  stage.world.annotate({ namespace, name: "wanted" }, { "sluice.dev/restart-mode": mode }, "secrets");
}

test("restart-config-together: a person who restarts by hand reads why one pod waits, and all of them restart together", async () => {
  for (const phase of ["schedule", "schedule-rolling"]) {
    const stage = await DriftStage.of("by-hand");
    stage.expect(joint);
    stage.write(one, phase);
    await steps(stage, 5);
    assert.deepEqual([stage.guard, stage.claims, mountedIn(stage)], ["restart-config-together", [], dataOf("a: 1")]);
    const { message = "" } = stage.verdicts.at(-1) ?? {};
    assert.match(
      message,
      /they change cluster.name, and it could not join the others: write schedule-coordinated on all/,
    );
    for (const name of names) stage.write(name, "schedule-coordinated");
    await steps(stage, 40);
    assert.deepEqual([stage.phases, stage.starts, runningIn(stage)], [none, [2, 2, 2], names.map(() => jointSum)]);
  }
});

test("restart-config-together: the mode coordinated holds a pod whatever changes, and the mode rolling holds none", async () => {
  const stage = await DriftStage.of("by-hand");
  stage.expect(joint);
  stage.write(one, "schedule");
  await steps(stage, 3);
  setMode(stage, "rolling");
  await stage.until("the copy", () => mountedIn(stage)?.["opensearch.yml"] === dataOf(joint)["opensearch.yml"]);
  const byMode = await DriftStage.of("coordinated");
  byMode.expect("a: 2");
  byMode.write(one, "schedule");
  await byMode.until("the phases", () => byMode.phases.every((phase) => phase === "schedule-coordinated"));
  assert.deepEqual(mountedIn(byMode), dataOf("a: 1"));
  const sum = sumOfSecret({ data: dataOf("a: 2") });
  assert.equal(reasonOf(byMode, one), `drift coordinated instead of schedule ${sum}`);
  assert.equal(reasonOf(byMode, other), `drift coordinated ${sum}`);
});

test("pods that a person wants restarted alone restart with the others where files make all restart together", async () => {
  const wishes = [
    [one, "schedule"],
    [other, "schedule-rolling"],
  ] as const;
  for (const pods of [wishes, names.map((name) => [name, "schedule-rolling"] as const)]) {
    const stage = await DriftStage.of();
    stage.expect(joint);
    for (const [name, phase] of pods) stage.write(name, phase);
    await stage.until("the phases", () => stage.phases.every((phase) => phase === "schedule-coordinated"));
    await steps(stage, 40);
    assert.deepEqual([stage.phases, stage.starts, runningIn(stage)], [none, [2, 2, 2], names.map(() => jointSum)]);
  }
});

test("what a person has asked for stands again where the files of before are expected again", async () => {
  const stage = await DriftStage.of();
  stage.expect(joint);
  stage.write(one, "schedule");
  await stage.until("the phases", () => stage.phases.every((phase) => phase === "schedule-coordinated"));
  stage.expect("a: 1");
  await stage.until("the phase of before", () => stage.phaseOf(one) === "schedule");
  assert.equal(reasonOf(stage, one), undefined);
  await steps(stage, 15);
  assert.deepEqual([stage.phases, stage.starts, runningIn(stage)], [none, [2, 1, 1], names.map(() => oldSum)]);
});

test("restart-config-together: a restart of all that a person has called off does not come back for a new pod alone", async () => {
  const stage = await DriftStage.of();
  stage.expect(joint);
  await stage.until("the phases", () => stage.phases.every((phase) => phase === "schedule-coordinated"));
  for (const name of names) stage.write(name, null);
  const { uid } = stage.pod(one).metadata;
  stage.world.store.delete("pods", { namespace, name: one });
  const isNew = () => (stage.world.store.find("pods", { namespace, name: one })?.metadata.uid ?? uid) !== uid;
  while (!isNew()) await stage.goOn(100);
  stage.manager(one).running = oldSum ?? "";
  await steps(stage, 30);
  assert.deepEqual([stage.guard, stage.phases, stage.starts], ["restart-config-together", none, [1, 1, 1]]);
  assert.match(stage.verdicts.at(-1)?.message ?? "", /^group-a-1 was taken out of the restart for the files/);
  for (const name of names) stage.write(name, "schedule-coordinated");
  await steps(stage, 40);
  assert.deepEqual([stage.phases, runningIn(stage)], [none, names.map(() => jointSum)]);
});

test("restart-config-together: no restart of all begins without a pod that a person took out of it before, and that runs", async () => {
  const stage = await DriftStage.of();
  stage.expect(joint);
  await stage.until("the phases", () => stage.phases.every((phase) => phase === "schedule-coordinated"));
  stage.write(one, "cancel");
  await steps(stage, 25);
  assert.deepEqual([stage.guard, stage.claims, stage.starts], ["restart-config-together", [], [1, 1, 1]]);
  stage.write(one, "schedule-coordinated");
  await steps(stage, 40);
  assert.deepEqual([stage.phases, stage.starts, runningIn(stage)], [none, [2, 2, 2], names.map(() => jointSum)]);
});

test("restart-config-together: no pods begin a restart together that another one could not join afterwards", async () => {
  const stage = await DriftStage.of("by-hand");
  stage.expect(joint);
  for (const name of [one, other]) stage.write(name, "schedule-coordinated");
  await steps(stage, 20);
  assert.deepEqual([stage.guard, stage.claims, stage.starts], ["restart-config-together", [], [1, 1, 1]]);
  assert.match(
    stage.verdicts.at(-1)?.message ?? "",
    /^group-a-2 is not in the restart of the others, .* with another cluster\.name: write schedule-coordinated on all/,
  );
  stage.write("group-a-2", "schedule-coordinated");
  await steps(stage, 40);
  assert.deepEqual([stage.phases, runningIn(stage)], [none, names.map(() => jointSum)]);
});

test("a restart of all does not go on without a pod that was taken out of it while it was silent, and that runs", async () => {
  const stage = await DriftStage.of();
  stage.expect(joint);
  await stage.until("the restart", () => stage.claims.length > 0);
  stage.silent.add(one);
  stage.write(one, null);
  await stage.until("the restart without it", () => stage.claims.some(({ uids = {} }) => !(one in uids)));
  stage.silent.delete(one);
  await steps(stage, 30);
  assert.deepEqual([stage.guard, stage.starts, stage.claims], ["restart-config-together", [1, 1, 1], []]);
  const events = stage.world.store.list("events", { namespace }).items as readonly { readonly message?: string }[];
  const why = events.filter(({ message = "" }) => message.startsWith(`${one} is not in the restart of the others`));
  assert.equal(why.length, 1);
  stage.expect(`${joint}\na: 2`);
  await steps(stage, 60);
  assert.deepEqual([stage.phases, stage.starts], [none, [2, 2, 2]]);
});

test("a restart that is withdrawn for such a pod asks once more, although the write of its claims fails at first", async () => {
  const stage = await DriftStage.of();
  stage.expect(joint);
  await stage.until("the restart", () => stage.claims.length > 0);
  stage.silent.add(one);
  stage.write(one, null);
  await stage.until("the restart without it", () => stage.claims.some(({ uids = {} }) => !(one in uids)));
  stage.silent.delete(one);
  const { interfere } = stage;
  const failed: unknown[] = [];
  stage.interfere = (call) => {
    const isAsked = reasonOf(stage, other) === undefined;
    if (failed.length > 0 || !isAsked || call.verb !== "patch" || call.resource !== "leases") return interfere(call);
    failed.push(stage.claims[0]?.phase);
    throw new ClusterError({ ...call, code: 409, reason: "Conflict", message: "no" });
  };
  await steps(stage, 30);
  assert.deepEqual(failed, ["preparing"], "the pods are asked once more before the claims are written");
  assert.deepEqual([stage.guard, stage.starts, stage.claims], ["restart-config-together", [1, 1, 1], []]);
});

test("after a person has edited the mounted Secret, files are compared with those that the processes were started with", async () => {
  const stage = await DriftStage.of();
  const mounted = () => stage.world.store.find("secrets", { namespace, name: "mounted" });
  await stage.until("the note", () => mounted()?.metadata.annotations?.[restartSettings.key] !== undefined);
  stage.world.store.patch("secrets", { namespace, name: "mounted" }, { data: dataOf(joint) } as never);
  stage.expect(`${joint}\na: 2`);
  await stage.until("the phases", () => stage.phases.every((phase) => phase === "schedule-coordinated"));
});

test("the settings of a mounted Secret are noted once, without a restart, an Event or an owner", async () => {
  const stage = await DriftStage.of();
  const mounted = () => stage.world.store.find("secrets", { namespace, name: "mounted" })?.metadata;
  await stage.until("the note", () => mounted()?.annotations?.[restartSettings.key] !== undefined);
  const before = mounted();
  await steps(stage, 10);
  assert.deepEqual([mounted()?.resourceVersion, before?.ownerReferences ?? []], [before?.resourceVersion, []]);
  assert.deepEqual([stage.phases, stage.starts, stage.guard], [none, [1, 1, 1], "done"]);
  assert.deepEqual(stage.world.store.list("events", { namespace }).items, []);
});

test("where the API server refuses the note of a mounted Secret, it is asked once, and the verdict is as without it", async () => {
  const stage = await DriftStage.of();
  const { interfere } = stage;
  let asked = 0;
  stage.interfere = (call) => {
    const { verb, resource } = call;
    if (verb !== "patch" || resource !== "secrets") return interfere(call);
    asked++;
    throw new ClusterError({ code: 403, reason: "Forbidden", message: "cannot patch", verb, resource });
  };
  stage.world.annotate({ namespace, name: "mounted" }, { [restartSettings.key]: null }, "secrets");
  await stage.until("the request", () => asked > 0);
  await steps(stage, 30);
  assert.deepEqual([asked, stage.guard, stage.phases], [1, "done", none]);
});

test("rollout-due: the verdict of a pod that may not start alone names what keeps all from a restart together", async () => {
  const stage = await DriftStage.of();
  stage.world.changeTemplate({ namespace, name: "group-a" }, "app:2");
  stage.expect(joint);
  stage.write(one, "schedule");
  await steps(stage, 5);
  assert.deepEqual([stage.guard, stage.claims, mountedIn(stage)], ["rollout-due", [], dataOf("a: 1")]);
});
