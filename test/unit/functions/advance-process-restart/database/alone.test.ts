/** A database of one node that a broken file keeps from its start: no node is left to restrict allocation, and none needs it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sumOfSecret } from "../../../../../functions/advance-process-restart/files.ts";
import { DatabaseStage } from "./stage.ts";

const namespace = "db";
const pod = "group-a-0";
const broken = "no.such.setting: true";
const dataOf = (file: string) => ({ "opensearch.yml": Buffer.from(file).toString("base64") });

/** One pod, whose process does not start with the broken file, and which is ready while its process runs. */
class AloneStage extends DatabaseStage {
  static async of(): Promise<AloneStage> {
    const stage = new AloneStage();
    const files = { "sluice.dev/restart-config": "wanted", "sluice.dev/restart-mounted": "mounted" };
    // The stand-in knows nothing of shards.
    const annotations = { ...files, "sluice.dev/restart-unchecked": "*" };
    stage.world.annotate({ namespace, name: "group-a" }, annotations);
    for (const name of ["wanted", "mounted"])
      stage.world.store.create("secrets", namespace, { metadata: { name }, data: dataOf("a: 1") } as never);
    stage.manager(pod).running = sumOfSecret({ data: dataOf("a: 1") });
    stage.world.store.patch("statefulsets", { namespace, name: "group-a" }, { spec: { replicas: 1 } });
    await stage.goOn(60_000);
    assert.equal(stage.world.store.list("pods", { namespace }).items.length, 1);
    await stage.begun();
    return stage;
  }

  expect(file: string): void {
    this.world.store.patch("secrets", { namespace, name: "wanted" }, { data: dataOf(file) } as never);
  }

  override async step(): Promise<void> {
    const { data = {} } = this.world.store.find("secrets", { namespace, name: "mounted" }) ?? {};
    const manager = this.manager(pod);
    manager.mounted = sumOfSecret({ data });
    manager.isWhole = manager.last?.sum !== sumOfSecret({ data: dataOf(broken) });
    await super.step();
    if (manager.state === "started") this.world.kubelet.healPod({ namespace, name: pod });
    else this.world.kubelet.breakPod({ namespace, name: pod }, "Unready");
  }
}

test("the mended file alone brings the only node back, and nothing of its restarts is left in the database", async () => {
  const stage = await AloneStage.of();
  stage.expect(broken);
  await stage.until("the failure", () => stage.phaseOf(pod) === "failed" && stage.claims.length === 0, 80);
  assert.equal(stage.manager(pod).state, "startFailed");
  stage.expect("a: 2");
  await stage.until("the end", () => stage.phaseOf(pod) === undefined && stage.claims.length === 0, 120);
  assert.equal(stage.manager(pod).running, sumOfSecret({ data: dataOf("a: 2") }));
  await stage.until("no marker", () => stage.allocation[1] === undefined, 60);
  assert.equal(stage.allocation[0], undefined);
});

test("database-unknown: the only process keeps running while its database does not answer", async () => {
  const stage = await AloneStage.of();
  stage.isSilent = true;
  stage.write(pod, "schedule");
  await stage.until("the claim", () => stage.claims.length > 0);
  for (let steps = 0; steps < 60; steps++) await stage.step();
  assert.deepEqual([stage.guard, stage.manager(pod).calls], ["database-unknown", []]);
});
