/** A kubelet that brings files late makes a restart longer, and no process is down for longer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { RestartStage } from "./stage.ts";

const namespace = "db";
const named = { "sluice.dev/restart-config": "wanted", "sluice.dev/restart-mounted": "mounted" };
const dataOf = (file: string) => ({ "db.yml": Buffer.from(file).toString("base64") });
const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);

/** For how many seconds each process is down, and all of the restart takes. */
interface Taken {
  readonly down: readonly number[];
  readonly whole: number;
}

/** Restarts all of them with other files, which the kubelet brings so many seconds after the Secret has them. */
async function restarted(phase: string, broughtAfter: number): Promise<Taken> {
  const stage = await new RestartStage(named).begun();
  const sums: string[] = [];
  for (const [name, file] of [
    ["wanted", "second"],
    ["mounted", "first"],
  ] as const) {
    const metadata = { name, annotations: { "sluice.dev/restart-mode": "by-hand" } };
    stage.world.store.create("secrets", namespace, { metadata, data: dataOf(file) } as never);
  }
  const down = names.map(() => 0);
  for (const name of names) stage.write(name, phase);
  for (let whole = 1; whole < 400; whole++) {
    sums.push(sumOfSecret({ data: stage.world.store.get("secrets", { namespace, name: "mounted" }).data ?? {} }));
    for (const name of names) stage.manager(name).mounted = sums.at(-1 - broughtAfter) ?? sums[0] ?? "";
    await stage.step();
    for (const [index, name] of names.entries())
      if (stage.manager(name).state !== "started") down[index] = (down[index] ?? 0) + 1;
    if (names.every((name) => stage.phaseOf(name) === undefined)) {
      assert.deepEqual(
        names.map((name) => stage.manager(name).running),
        names.map(() => sums.at(-1)),
      );
      return { down, whole };
    }
  }
  return assert.fail(`${phase} does not end: ${stage.guard}`);
}

for (const phase of ["schedule", "schedule-rolling", "schedule-coordinated"])
  test(`${phase}: with files that come 70 s late each process is down for as long as with files that come at once`, async () => {
    const [soon, late] = [await restarted(phase, 0), await restarted(phase, 70)];
    assert.ok(late.whole >= soon.whole + 60, `${late.whole} s, and ${soon.whole} s`);
    assert.ok(
      soon.down.every((seconds) => seconds > 0),
      "each was down",
    );
    assert.deepEqual(late.down, soon.down);
  });
