/** What a person asks for after Sluice has restarted the same pods by itself. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { DriftStage, dataOf, names, namespace, reasonKey, steps } from "./drift-stage.ts";

const none = [undefined, undefined, undefined];
const sumOf = (file: string): string => sumOfSecret({ data: dataOf(file) });
const reasons = (stage: DriftStage) => names.map((name) => stage.pod(name).metadata.annotations?.[reasonKey]);

/** Other files have restarted each process. From then on a person restarts them. */
async function restarted(): Promise<DriftStage> {
  const stage = await DriftStage.of();
  stage.expect("a: 2");
  await steps(stage, 60);
  assert.deepEqual([stage.phases, stage.starts], [none, [2, 2, 2]]);
  assert.deepEqual(
    reasons(stage),
    names.map(() => `asked ${sumOf("a: 2")}`),
  );
  stage.world.annotate({ namespace, name: "wanted" }, { "sluice.dev/restart-mode": "by-hand" }, "secrets");
  return stage;
}

test("after a restart for other files a person restarts the pods by hand, with the same files and with the next ones", async () => {
  for (const phase of ["schedule-rolling", "schedule-coordinated"])
    for (const file of ["a: 2", "a: 3"]) {
      const stage = await restarted();
      stage.expect(file);
      for (const name of names) stage.write(name, phase);
      await steps(stage, 60);
      assert.deepEqual([stage.phases, stage.starts], [none, [3, 3, 3]], `${phase} ${file}`);
      assert.deepEqual(
        names.map((name) => stage.manager(name).running),
        names.map(() => sumOf(file)),
      );
    }
});

test("the phase of a StatefulSet is what a person wants, although other files have asked its pods before", async () => {
  const stage = await restarted();
  const name = "group-a";
  stage.world.annotate({ namespace, name }, { "elasticsearch.k8s.elastic.co/restart-phase": "schedule-rolling" });
  await steps(stage, 60);
  assert.deepEqual([stage.phases, stage.starts], [none, [3, 3, 3]]);
});

test("a pod that a person has taken out of a restart for other files restarts by hand afterwards", async () => {
  const stage = await DriftStage.of();
  stage.expect("a: 2");
  await stage.until("the phases", () => stage.phases.includes("schedule-rolling"));
  const [first = ""] = names;
  stage.write(first, null);
  await steps(stage, 60);
  assert.deepEqual([stage.phases, stage.starts], [none, [1, 2, 2]]);
  stage.world.annotate({ namespace, name: "wanted" }, { "sluice.dev/restart-mode": "by-hand" }, "secrets");
  stage.write(first, "schedule-rolling");
  await steps(stage, 20);
  assert.deepEqual([stage.phases, stage.starts], [none, [2, 2, 2]]);
});
