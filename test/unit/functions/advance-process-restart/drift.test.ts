/** Processes restart by themselves where other files are expected than they were started with. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { DriftStage, dataOf, names, namespace, reasonKey, steps } from "./drift-stage.ts";

test("a changed file restarts each process once, in turn, with the new files, and then nothing more", async () => {
  const stage = await DriftStage.of();
  await steps(stage, 2);
  assert.deepEqual(stage.starts, [1, 1, 1], "nothing has changed");
  stage.expect("a: 2");
  await steps(stage, 40);
  assert.deepEqual(stage.starts, [2, 2, 2]);
  assert.deepEqual(stage.phases, [undefined, undefined, undefined]);
  for (const name of names) assert.equal(stage.manager(name).running, sumOfSecret({ data: dataOf("a: 2") }));
});

test("a restart that a person cancels does not come back before the files change again", async () => {
  const stage = await DriftStage.of();
  stage.expect("a: 2");
  await stage.until("the phases", () => stage.phases.includes("schedule-rolling"));
  for (const name of names) stage.write(name, null);
  await steps(stage, 5);
  assert.deepEqual(
    [stage.starts, stage.phases],
    [
      [1, 1, 1],
      [undefined, undefined, undefined],
    ],
  );
  stage.expect("a: 3");
  await steps(stage, 40);
  assert.deepEqual(stage.starts, [2, 2, 2]);
});

test("phases for files that are expected no more are taken off", async () => {
  const stage = await DriftStage.of();
  stage.expect("cluster.name: other");
  await stage.until("the phases", () => stage.phases.includes("schedule-coordinated"));
  stage.expect("a: 1");
  await steps(stage, 2);
  assert.deepEqual(
    [stage.starts, stage.phases],
    [
      [1, 1, 1],
      [undefined, undefined, undefined],
    ],
  );
  assert.equal(stage.pod("group-a-0").metadata.annotations?.[reasonKey], undefined);
});

test("a pod that is made anew before all restart together is one of them, though its server is silent at first", async () => {
  const [old, wanted] = ["a: 1", "cluster.name: other"].map((file) => sumOfSecret({ data: dataOf(file) }));
  const stage = await DriftStage.of();
  stage.expect("cluster.name: other");
  await stage.until("the phases", () => stage.phases.every((phase) => phase === "schedule-coordinated"));
  const { uid } = stage.pod("group-a-1").metadata;
  stage.world.store.delete("pods", { namespace, name: "group-a-1" });
  stage.silent.add("group-a-1");
  while ((stage.world.store.find("pods", { namespace, name: "group-a-1" })?.metadata.uid ?? uid) === uid)
    await stage.goOn(100);
  Object.assign(stage.manager("group-a-1"), { running: old, mounted: old });
  for (let step = 0; step < 15; step++) await stage.step();
  assert.equal(stage.claims.length, 0, "the others do not begin without it");
  stage.silent.clear();
  await stage.until("the claim", () => stage.claims.length > 0);
  assert.deepEqual(Object.keys(stage.claims[0]?.uids ?? {}).sort(), names);
  await steps(stage, 40);
  for (const name of names) assert.equal(stage.manager(name).running, wanted, name);
});

test("rollout-due: processes that other files ask to restart together wait for a rollout that became due meanwhile", async () => {
  const stage = await DriftStage.of();
  stage.expect("cluster.name: other");
  await stage.until("the phases", () => stage.phases.every((phase) => phase === "schedule-coordinated"));
  stage.world.changeTemplate({ namespace, name: "group-a" }, "app:2");
  await steps(stage, 15);
  assert.deepEqual([stage.claims.length, stage.guard], [0, "rollout-due"]);
});

test("sluice.dev/restart-mode overrules what the settings say, and an unknown one restarts nothing", async () => {
  const cases = [
    ["rolling", "cluster.name: other", "schedule-rolling"],
    ["coordinated", "a: 2", "schedule-coordinated"],
    ["by-hand", "a: 2", undefined],
    ["sometimes", "a: 2", undefined],
  ] as const;
  for (const [mode, file, phase] of cases) {
    const stage = await DriftStage.of(mode);
    stage.expect(file);
    await stage.step();
    await stage.step();
    assert.equal(stage.phaseOf("group-a-0"), phase, mode);
    const isUnknown = stage.world.store
      .list("events", { namespace })
      .items.some((one) => JSON.stringify(one).includes("sometimes"));
    assert.equal(isUnknown, mode === "sometimes", "an Event names the value");
  }
});

test("restart-config-unreadable: a main file that cannot be parsed restarts nothing, whatever its bytes", async () => {
  for (const file of ["a: [", "just a text", "a: 1\na: 2", Buffer.from([0xff, 0, 0xfe])]) {
    const stage = await DriftStage.of();
    stage.expect(file);
    await steps(stage, 3);
    assert.deepEqual([stage.guard, stage.starts], ["restart-config-unreadable", [1, 1, 1]]);
    stage.write("group-a-0", "schedule");
    await steps(stage, 3);
    assert.deepEqual([stage.guard, stage.starts], ["restart-config-unreadable", [1, 1, 1]]);
  }
});

/** A stage whose pod `group-a-1` is parked. */
async function withParked(): Promise<DriftStage> {
  const stage = await DriftStage.of();
  await steps(stage, 2);
  parkMiddle(stage, "true");
  await stage.until("the rest", () => stage.claims[0]?.phase === "parked");
  return stage;
}

function parkMiddle(stage: DriftStage, value: string | null): void {
  stage.world.annotate({ namespace, name: "group-a-1" }, { "sluice.dev/stop": value }, "pods");
}

test("beside a parked process other files restart the others within the budget, and it starts with the new files itself", async () => {
  const stage = await withParked();
  stage.expect("a: 2");
  await steps(stage, 20);
  assert.deepEqual([stage.guard, stage.starts], ["budget", [1, 1, 1]], "one may be down, and it is parked");
  parkMiddle(stage, null);
  await steps(stage, 50);
  assert.deepEqual([stage.starts, stage.claims], [[2, 2, 2], []]);
  for (const name of names) assert.equal(stage.manager(name).running, sumOfSecret({ data: dataOf("a: 2") }), name);
});

test("settings that all nodes must have in common wait for a parked process, and then all restart together", async () => {
  const stage = await withParked();
  stage.expect("cluster.name: other");
  await steps(stage, 25);
  assert.deepEqual([stage.guard, stage.starts], ["restart-beside-others", [1, 1, 1]]);
  parkMiddle(stage, null);
  await steps(stage, 60);
  assert.deepEqual([stage.starts, stage.claims], [[2, 3, 2], []]);
  const sum = sumOfSecret({ data: dataOf("cluster.name: other") });
  for (const name of names) assert.equal(stage.manager(name).running, sum, name);
});

test("a member that is taken out of a restart for these files while its server is silent starts again, once it answers", async () => {
  const stage = await DriftStage.of("coordinated");
  const [silent = "", ...others] = names;
  stage.expect("a: 2");
  for (let steps = 0; steps < 60 && stage.manager(silent).state !== "stopped"; steps++) await stage.stepWithFiles();
  stage.silent.add(silent);
  stage.write(silent, null);
  for (let steps = 0; steps < 60 && others.some((name) => stage.phaseOf(name)); steps++) await stage.stepWithFiles();
  assert.deepEqual([stage.claims, stage.starts, stage.manager(silent).state], [[], [1, 2, 2], "stopped"]);
  stage.silent.delete(silent);
  await steps(stage, 40);
  assert.deepEqual(
    [stage.starts, stage.phases],
    [
      [2, 2, 2],
      [undefined, undefined, undefined],
    ],
  );
  assert.equal(stage.manager(silent).running, sumOfSecret({ data: dataOf("a: 2") }));
});

test("process managers of another version, whose sums have another method, restart nothing", async () => {
  const stage = await DriftStage.of();
  for (const name of names) Object.assign(stage.manager(name), { running: "2:00000000", mounted: "2:00000000" });
  for (let step = 0; step < 30; step++) await stage.step();
  assert.deepEqual(
    [stage.starts, stage.phases],
    [
      [1, 1, 1],
      [undefined, undefined, undefined],
    ],
  );
});
