/** Two StatefulSets restart together, and a person takes their change back, one Secret after the other: no two settings run. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { RestartStage } from "./stage.ts";

const namespace = "db";
const zones = ["a", "b"] as const;
const names = ["group-a-0", "group-a-1", "group-b-0"];
const [before, after] = ["cluster.name: before", "cluster.name: after"] as const;
const dataOf = (file: string) => ({ "opensearch.yml": Buffer.from(file).toString("base64") });
const sumIn = (file: string) => sumOfSecret({ data: dataOf(file) });
/** The kubelet brings files so many steps after they were written. */
const broughtAfter = 4;

class ZonesStage extends RestartStage {
  readonly #brought: string[][] = [];

  static async of(): Promise<ZonesStage> {
    const stage = new ZonesStage({}, 2);
    stage.world.addGroup({ namespace, group: "group", zones: ["b"], replicas: 1 });
    await stage.goOn(60_000);
    const { annotations = {} } = stage.world.store.get("statefulsets", { namespace, name: "group-a" }).metadata;
    for (const zone of zones) {
      const files = { "sluice.dev/restart-config": `wanted-${zone}`, "sluice.dev/restart-mounted": `mounted-${zone}` };
      stage.world.annotate({ namespace, name: `group-${zone}` }, { ...annotations, ...files });
      for (const name of Object.values(files))
        stage.world.store.create("secrets", namespace, { metadata: { name }, data: dataOf(before) } as never);
    }
    for (const name of names) stage.manager(name).running = sumIn(before);
    return stage.begun();
  }

  expect(zone: string, file: string): void {
    this.world.store.patch("secrets", { namespace, name: `wanted-${zone}` }, { data: dataOf(file) } as never);
  }

  /** Fails where two processes run with different settings. */
  override async step(): Promise<void> {
    const sums = zones.map((zone) =>
      sumOfSecret(this.world.store.get("secrets", { namespace, name: `mounted-${zone}` })),
    );
    this.#brought.push(sums);
    const brought = this.#brought.at(-1 - broughtAfter) ?? this.#brought[0] ?? [];
    for (const name of names) this.manager(name).mounted = brought[name.startsWith("group-a") ? 0 : 1] ?? "";
    await super.step();
    const running = names
      .filter((name) => this.manager(name).state === "started")
      .map((name) => this.manager(name).running);
    assert.ok(new Set(running).size <= 1, `processes run with ${running}`);
  }

  runs(file: string): boolean {
    const isDone = names.every(
      (name) => this.phaseOf(name) === undefined && this.manager(name).running === sumIn(file),
    );
    return isDone && this.claims.length === 0;
  }
}

test("whichever Secret is taken back first, and wherever the restart is by then, all processes have the same settings", async () => {
  const seen = new Set<string>();
  for (const [first, second] of [zones, zones.toReversed()] as const)
    for (let steps = 0; steps < 60; steps += 1) {
      const stage = await ZonesStage.of();
      for (const zone of zones) stage.expect(zone, after);
      for (let step = 0; step < steps; step++) await stage.step();
      if (stage.runs(after)) break;
      seen.add(stage.claims[0]?.phase ?? "none");
      stage.expect(first ?? "", before);
      for (let step = 0; step < 12; step++) await stage.step();
      stage.expect(second ?? "", before);
      for (let step = 0; step < 20; step++) await stage.step();
      await stage.until(`the end of what was taken back after ${steps} steps`, () => stage.runs(before), 150);
    }
  assert.deepEqual([...seen].sort(), ["none", "preparing", "starting", "stopping"]);
});
