/** The node of a pod dies in the middle of its restart: that waits and says so, and another pod of the name ends it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { idKey, RestartStage } from "./stage.ts";

const namespace = "db";
const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);
const [lost = "", ...others] = names;

/** What takes the pod of a dead node away, by its uid: a fence, or a person. */
function fence(stage: RestartStage): void {
  const { uid } = stage.pod(lost).metadata;
  stage.world.store.delete("pods", { namespace, name: lost }, { gracePeriodSeconds: 0, preconditions: { uid } });
}

for (const phase of ["schedule", "schedule-rolling", "schedule-coordinated"])
  for (const state of ["stopping", "stopped", "started"])
    test(`manager-silent: ${phase}, and the node dies while the process is ${state}`, async () => {
      const stage = await new RestartStage().begun();
      const { uid } = stage.pod(lost).metadata;
      const marked = phase === "schedule-coordinated" ? names : [lost];
      for (const name of marked) stage.write(name, phase);
      const manager = stage.managerOf(uid);
      manager.ends = state !== "stopping";
      const isThere = () => manager.state === state && (state !== "started" || manager.starts === 2);
      for (let steps = 0; !isThere() && steps < 60; steps++) await stage.step();
      assert.ok(isThere() && stage.claims.length === 1, `${manager.state}, ${stage.guard}`);
      stage.silent.add(lost);
      for (let steps = 0; steps < 20; steps++) await stage.step();
      assert.deepEqual([stage.guard, stage.claims.length], ["manager-silent", 1]);
      fence(stage);
      stage.silent.delete(lost);
      await stage.until("the end", () => stage.claims.length === 0, 120);
      for (let steps = 0; steps < 3; steps++) await stage.step();
      assert.notEqual(stage.pod(lost).metadata.uid, uid);
      for (const name of names) {
        const { annotations = {} } = stage.pod(name).metadata;
        assert.deepEqual(
          [stage.phaseOf(name), annotations[idKey], stage.manager(name).state],
          [undefined, undefined, "started"],
        );
      }
      const starts = phase === "schedule-coordinated" ? 2 : 1;
      assert.deepEqual(
        others.map((name) => stage.manager(name).starts),
        [starts, starts],
      );
    });
