/** The group label of a StatefulSet changes in the middle of a restart: the restart ends, and nothing of it is left. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { advanceProcessRestart } from "../../../../functions/advance-process-restart/function.ts";
import { played } from "../../shared/reconcile/harness.ts";
import { DatabaseStage } from "./database/stage.ts";
import { idKey } from "./stage.ts";

const namespace = "db";
const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);
const otherKey = { namespace, group: "other" };

/** Two groups are reconciled: the one that the StatefulSet is of at first, and the one that it moves to. */
class MovedStage extends DatabaseStage {
  static async of(): Promise<MovedStage> {
    const stage = new MovedStage();
    stage.world.annotate({ namespace, name: "group-a" }, { "sluice.dev/restart-unchecked": "*" });
    await stage.begun();
    return stage;
  }

  move(): void {
    const labels = { "rollout-group": "other" };
    this.world.store.patch("statefulsets", { namespace, name: "group-a" }, { metadata: { labels } });
  }

  override async step(): Promise<void> {
    const outcome = await played(
      this.timeline,
      advanceProcessRestart.reconcile(this.context, otherKey, { sweep: true }),
    );
    if (outcome.pendingActs !== undefined) await played(this.timeline, outcome.pendingActs);
    await super.step();
    for (const name of names) {
      const isUp = this.manager(name).state === "started";
      if (isUp) this.world.kubelet.healPod({ namespace, name });
      else this.world.kubelet.breakPod({ namespace, name }, "Unready");
    }
    const down = names.filter((name) => this.manager(name).state !== "started").length;
    this.mostDown = Math.max(this.mostDown, down);
  }

  /** The highest number of processes that were down at once. */
  mostDown = 0;

  /** The claims of both groups. */
  get open(): readonly string[] {
    return this.world.store.list("leases").items.flatMap(({ metadata }) => {
      const entries = Object.entries(metadata.annotations ?? {});
      return entries.flatMap(([key, value]) => (key.endsWith("claims") && value ? [value] : []));
    });
  }

  get isOver(): boolean {
    return this.open.length === 0 && names.every((name) => this.phaseOf(name) === undefined);
  }
}

/** Moves the StatefulSet after so many steps. Returns false once the restart was over before. */
async function moved(phase: string, marked: readonly string[], afterSteps: number): Promise<boolean> {
  const stage = await MovedStage.of();
  for (const name of marked) stage.write(name, phase);
  for (let steps = 0; steps < afterSteps; steps++) await stage.step();
  if (afterSteps > 0 && stage.isOver) return false;
  const when = `${stage.claims[0]?.phase ?? "no claim"}, after ${afterSteps} steps`;
  stage.move();
  for (let steps = 0; !stage.isOver; steps++) {
    assert.ok(steps < 150, `moved in ${when}: no end of ${stage.open}; ${stage.verdicts.at(-1)?.message}`);
    await stage.step();
  }
  for (const name of names) {
    const { starts, state } = stage.manager(name);
    const { annotations = {} } = stage.pod(name).metadata;
    const wanted = [marked.includes(name) ? 2 : 1, "started", undefined];
    assert.deepEqual([starts, state, annotations[idKey]], wanted, `${name} moved in ${when}`);
  }
  assert.deepEqual(stage.allocation, [undefined, undefined], when);
  assert.equal(stage.mostDown, phase === "schedule-coordinated" ? names.length : 1, when);
  return true;
}

for (const [phase, marked] of [
  ["schedule", names.slice(1, 2)],
  ["schedule-rolling", names],
  ["schedule-coordinated", names],
] as const)
  suite(phase, () => {
    test("wherever the StatefulSet gets another group, each process restarts once, and claims, phases and the setting go", async () => {
      for (let steps = 0; await moved(phase, marked, steps); steps++) assert.ok(steps < 80);
    });
  });
