/** A mounted Secret without files: the processes that wait for the first ones get them at once, and no restart is begun. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { RestartStage } from "./stage.ts";

const namespace = "db";
const named = { "sluice.dev/restart-config": "wanted", "sluice.dev/restart-mounted": "mounted" };
const dataOf = (file: string) => ({ "opensearch.yml": Buffer.from(file).toString("base64") });
const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);
const [first, second] = ["cluster.name: one", "cluster.name: two"].map((file) => sumOfSecret({ data: dataOf(file) }));

/** Its runners wait until the mounted Secret has files, and start their processes with these. */
class EmptyStage extends RestartStage {
  static async of({ mode = "", expected = "cluster.name: one" } = {}): Promise<EmptyStage> {
    const stage = new EmptyStage(named);
    const annotations = mode === "" ? {} : { "sluice.dev/restart-mode": mode };
    const add = (name: string, data: object) =>
      stage.world.store.create("secrets", namespace, { metadata: { name, annotations }, data } as never);
    if (expected !== "") add("wanted", dataOf(expected));
    add("mounted", {});
    for (const name of names) stage.wait(name);
    return stage.begun();
  }

  /** The process of a pod has never started. */
  wait(name: string): void {
    Object.assign(this.manager(name), { state: "waiting", running: null, starts: 0 });
    this.world.kubelet.breakPod({ namespace, name }, "Unready");
  }

  get mounted(): Readonly<Record<string, string>> {
    return this.world.store.get("secrets", { namespace, name: "mounted" }).data ?? {};
  }

  override async step(): Promise<void> {
    await super.step();
    for (const name of names) {
      const manager = this.manager(name);
      manager.mounted = sumOfSecret({ data: this.mounted });
      if (manager.state !== "waiting" || Object.keys(this.mounted).length === 0) continue;
      Object.assign(manager, { state: "started", running: manager.mounted, starts: 1 });
      this.world.kubelet.healPod({ namespace, name });
    }
  }
}

for (const mode of ["", "rolling", "coordinated", "by-hand"])
  test(`an empty mounted Secret gets the expected files at once, and each process starts once (restart-mode: ${mode || "none"})`, async () => {
    const stage = await EmptyStage.of({ mode });
    await stage.step();
    assert.deepEqual(stage.mounted, dataOf("cluster.name: one"), "the first reconcile fills it");
    const [owner] = stage.world.store.get("secrets", { namespace, name: "mounted" }).metadata.ownerReferences ?? [];
    assert.deepEqual([owner?.kind, owner?.name], ["StatefulSet", "group-a"]);
    for (let steps = 0; steps < 30; steps++) await stage.step();
    for (const name of names) {
      const { calls, starts, running } = stage.manager(name);
      assert.deepEqual([calls, starts, running, stage.phaseOf(name)], [[], 1, first, undefined], name);
    }
  });

test("an expected Secret that is made later fills it ten seconds later at most", async () => {
  const stage = await EmptyStage.of({ expected: "" });
  await stage.step();
  assert.deepEqual([stage.mounted, stage.guard], [{}, "restart-config-missing"]);
  const metadata = { name: "wanted" };
  stage.world.store.create("secrets", namespace, { metadata, data: dataOf("cluster.name: one") } as never);
  for (let steps = 0; steps < 10; steps++) await stage.step();
  assert.deepEqual(stage.mounted, dataOf("cluster.name: one"));
});

test("a mounted Secret that a person empties is not filled before a process that runs restarts, so that all restart together", async () => {
  const stage = await EmptyStage.of();
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.deepEqual(
    names.map((name) => stage.manager(name).running),
    [first, first, first],
  );
  stage.world.store.patch("secrets", { namespace, name: "mounted" }, { data: { "opensearch.yml": null } } as never);
  stage.world.store.patch("secrets", { namespace, name: "wanted" }, { data: dataOf("cluster.name: two") } as never);
  await stage.until("the phases", () => names.every((name) => stage.phaseOf(name) === "schedule-coordinated"));
  assert.deepEqual(stage.mounted, {});
  await stage.until("the end", () => names.every((name) => stage.phaseOf(name) === undefined), 80);
  for (const name of names)
    assert.deepEqual([stage.manager(name).starts, stage.manager(name).running], [2, second], name);
});
