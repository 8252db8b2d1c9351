/** Two StatefulSets restart together, and a person takes their change back, one Secret after the other: no two settings run. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { names, ZonesStage, zones } from "./zones-stage.ts";

const [before, after] = ["cluster.name: before", "cluster.name: after"] as const;

class RevertedStage extends ZonesStage {
  static async of(): Promise<RevertedStage> {
    const stage = new RevertedStage({}, 2);
    await stage.beginWith(before);
    return stage;
  }

  /** Fails where two processes run with different settings. */
  override async step(): Promise<void> {
    await super.step();
    const running = names
      .filter((name) => this.manager(name).state === "started")
      .map((name) => this.manager(name).running);
    assert.ok(new Set(running).size <= 1, `processes run with ${running}`);
  }
}

test("whichever Secret is taken back first, and wherever the restart is by then, all processes have the same settings", async () => {
  const seen = new Set<string>();
  for (const [first, second] of [zones, zones.toReversed()] as const)
    for (let steps = 0; steps < 60; steps += 1) {
      const stage = await RevertedStage.of();
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
