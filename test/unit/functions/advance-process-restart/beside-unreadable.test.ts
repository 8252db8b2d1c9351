/** Files that cannot be read, or disagree: those of another StatefulSet still reach its processes, where each may start alone. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { dataOf, names, namespace, sumIn, ZonesStage } from "./zones-stage.ts";

const [first, second] = names;

async function stageOf(): Promise<ZonesStage> {
  const stage = new ZonesStage({}, 2);
  await stage.beginWith("a: 1");
  return stage;
}

const phases = (stage: ZonesStage) => names.map((name) => stage.phaseOf(name));

for (const [what, spoil] of [
  ["unreadable", (stage: ZonesStage) => stage.expect("b", "a: [")],
  ["missing", (stage: ZonesStage) => stage.world.store.delete("secrets", { namespace, name: "wanted-b" })],
] as const) {
  test(`beside files that are ${what}, a mended file restarts the pod that a broken one keeps down`, async () => {
    const stage = await stageOf();
    stage.expect("a", "a: broken");
    stage.manager(first).isWhole = false;
    stage.write(first, "schedule");
    await stage.until("the failure", () => stage.phaseOf(first) === "failed");
    stage.write(first, "cancel");
    await stage.until("the rest", () => stage.phaseOf(first) === undefined);
    spoil(stage);
    stage.expect("a", "a: mended");
    stage.manager(first).isWhole = true;
    const isBack = () => [first, second].every((name) => stage.manager(name).running === sumIn("a: mended"));
    await stage.until("both processes with the mended file", () => isBack() && stage.claims.length === 0, 120);
    await stage.until("why the others wait", () => stage.guard === `restart-config-${what}`);
  });

  test(`beside files that are ${what}, no processes restart together`, async () => {
    const stage = await stageOf();
    spoil(stage);
    stage.expect("a", "cluster.name: other");
    for (let step = 0; step < 20; step++) await stage.step();
    assert.deepEqual([phases(stage), stage.guard], [[undefined, undefined, undefined], `restart-config-${what}`]);
    const { data } = stage.world.store.get("secrets", { namespace, name: "mounted-a" }) as { readonly data?: object };
    assert.deepEqual(data, dataOf("a: 1"));
  });

  test(`beside files that are ${what}, the verdict names them and what else a pod waits for`, async () => {
    const stage = await stageOf();
    stage.world.changeTemplate({ namespace, name: "group-a" }, "app:2");
    stage.write(first, "schedule-rolling");
    await stage.until("why the pod waits", () => stage.guard === "rollout-due");
    spoil(stage);
    await stage.until("both reasons", () => stage.guard === `restart-config-${what}`);
    assert.match(stage.verdicts.at(-1)?.message ?? "", /wanted-b.*; besides, group-a-0 waits: /);
  });
}

test("beside files that are unreadable, no process restarts alone that could not join those which run with them", async () => {
  const joint = "cluster.name: other";
  const stage = await stageOf();
  // A restart of all was called off, and a rollout has given one StatefulSet the files of it.
  stage.world.store.patch("secrets", { namespace, name: "mounted-a" }, { data: dataOf(joint) } as never);
  for (const name of [first, second]) stage.manager(name).running = sumIn(joint);
  stage.expect("b", "a: [");
  stage.expect("a", `${joint}\na: 2`);
  for (let step = 0; step < 20; step++) await stage.step();
  assert.deepEqual([phases(stage), stage.guard], [[undefined, undefined, undefined], "restart-config-unreadable"]);
  stage.expect("b", joint);
  await stage.until("the phases", () => phases(stage).every((phase) => phase === "schedule-coordinated"));
});

test("beside files that disagree, the verdict names them and what else a pod waits for, until they agree", async () => {
  const stage = await stageOf();
  stage.world.changeTemplate({ namespace, name: "group-a" }, "app:2");
  stage.write(first, "schedule-rolling");
  await stage.until("why the pod waits", () => stage.guard === "rollout-due");
  stage.expect("b", "cluster.name: other");
  await stage.until("both reasons", () => stage.guard === "restart-config-disagrees");
  assert.match(stage.verdicts.at(-1)?.message ?? "", /wanted-b.* cluster\.name; besides, group-a-0 waits: /);
  stage.expect("a", "cluster.name: other");
  await stage.until("the rollout alone", () => stage.guard === "rollout-due");
  assert.doesNotMatch(stage.verdicts.at(-1)?.message ?? "", /besides/);
});
