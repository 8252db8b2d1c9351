/** A person takes a change of files back at any moment of a restart of many: all processes have the same files at any time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { DatabaseStage } from "./database/stage.ts";

const namespace = "db";
const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);
const dataOf = (file: string) => ({ "opensearch.yml": Buffer.from(file).toString("base64") });
const [before, after] = ["cluster.name: before", "cluster.name: after"];
const [sumBefore, sumAfter] = [before, after].map((file) => sumOfSecret({ data: dataOf(file) }));
/** The kubelet brings files so many steps after they were written. */
const broughtAfter = 4;

class RevertStage extends DatabaseStage {
  readonly #sums: string[] = [];

  static async of(): Promise<RevertStage> {
    const stage = new RevertStage();
    const files = { "sluice.dev/restart-config": "wanted", "sluice.dev/restart-mounted": "mounted" };
    stage.world.annotate({ namespace, name: "group-a" }, files);
    for (const name of ["wanted", "mounted"])
      stage.world.store.create("secrets", namespace, { metadata: { name }, data: dataOf(before) } as never);
    for (const name of names) stage.manager(name).running = sumBefore ?? "";
    await stage.begun();
    return stage;
  }

  expect(file: string): void {
    this.world.store.patch("secrets", { namespace, name: "wanted" }, { data: dataOf(file) } as never);
  }

  /** Fails where two processes run with different files, or one starts before all are down. */
  override async step(): Promise<void> {
    this.#sums.push(sumOfSecret(this.world.store.get("secrets", { namespace, name: "mounted" })));
    const mounted = this.#sums.at(-1 - broughtAfter) ?? this.#sums[0] ?? "";
    const all = names.map((name) => this.manager(name));
    for (const manager of all) manager.mounted = mounted;
    const starts = all.map((manager) => manager.starts);
    const wereDown = all.map(({ state }) => state !== "started" && state !== "stopping");
    await super.step();
    const running = all.filter(({ state }) => state === "started").map((manager) => manager.running);
    assert.ok(new Set(running).size <= 1, `processes run with ${running}`);
    const [epoch = 0] = all.map(({ last }) => last?.epoch);
    const isFirstStart = all.some((manager, index) => manager.starts > (starts[index] ?? 0)) && epoch > 0;
    if (isFirstStart && !wereDown.every(Boolean))
      assert.ok(
        all.every(({ last }) => last?.verb === "start"),
        "one starts before all are down",
      );
  }

  get isOver(): boolean {
    return this.claims.length === 0 && names.every((name) => this.phaseOf(name) === undefined);
  }
}

/** Takes the change back after so many steps. Returns in which phase that was; undefined once the restart was over. */
async function reverted(afterSteps: number): Promise<string | undefined> {
  const stage = await RevertStage.of();
  stage.expect(after ?? "");
  for (let steps = 0; steps < afterSteps; steps++) await stage.step();
  const phase = stage.claims[0]?.phase ?? stage.phaseOf(names[0] ?? "") ?? "none";
  const isChanged = names.every((name) => stage.manager(name).running === sumAfter);
  if (stage.isOver && isChanged) return undefined;
  const isReserved = stage.claims.length > 0;
  stage.expect(before ?? "");
  const isBack = () => stage.isOver && names.every((name) => stage.manager(name).running === sumBefore);
  // Long enough for what other files ask for by themselves.
  for (let steps = 0; steps < 20; steps++) await stage.step();
  await stage.until(`the end of what was reverted in ${phase}`, isBack, 120);
  const starts = names.map((name) => stage.manager(name).starts);
  const most = isReserved ? 3 : 1;
  assert.ok(
    starts.every((count) => count <= most),
    `${phase}: ${starts}`,
  );
  assert.deepEqual(stage.allocation, [undefined, undefined], phase);
  return phase;
}

test("a revert in each phase of a restart of many ends with the earlier files in all processes, and none runs alone with others", async () => {
  const seen = new Set<string>();
  for (let steps = 0; steps < 80; steps++) {
    const phase = await reverted(steps);
    if (phase === undefined) break;
    seen.add(phase);
  }
  const phases = ["none", "schedule-coordinated", "preparing", "restricting", "flushing", "stopping", "starting"];
  assert.deepEqual([...seen].sort(), phases.sort());
});
