/** A person deletes all pods of a group in the middle of a restart: allocation is as the user had it soon after they are back. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { allocationKey } from "../../../../support/stand-in-database.ts";
import { DatabaseStage } from "./stage.ts";

const namespace = "db";
const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);

function deleteAll(stage: DatabaseStage): void {
  for (const name of names) stage.world.store.delete("pods", { namespace, name }, { gracePeriodSeconds: 0 });
}

const areBack = (stage: DatabaseStage) =>
  names.every((name) => {
    const pod = stage.world.store.find("pods", { namespace, name });
    return pod?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;
  });

for (const phase of ["schedule", "schedule-rolling", "schedule-coordinated"])
  for (const isAnother of [false, true])
    test(`${phase}: all pods are deleted while allocation is restricted, and ${isAnother ? "another" : "the same"} process undoes that within a minute of their rest`, async () => {
      const stage = new DatabaseStage();
      stage.world.annotate({ namespace, name: "group-a" }, { "sluice.dev/restart-unchecked": "*" });
      stage.standIn.persistent[allocationKey] = "all";
      await stage.begun();
      for (const name of phase === "schedule-coordinated" ? names : names.slice(0, 1)) stage.write(name, phase);
      await stage.until("the marker", () => stage.allocation[1] !== undefined);
      deleteAll(stage);
      if (isAnother) stage.anew();
      await stage.until("all pods", () => areBack(stage), 120);
      const restMs = stage.cluster.monotonicMs();
      await stage.until("the end", () => stage.claims.length === 0 && stage.allocation[1] === undefined, 120);
      const tookMs = stage.cluster.monotonicMs() - restMs;
      assert.ok(tookMs <= 60_000, `${tookMs} ms`);
      assert.deepEqual(stage.allocation, ["all", undefined]);
      // Those that restart together are stopped in the place of the earlier pods.
      const starts = phase === "schedule-coordinated" ? 2 : 1;
      for (const name of names)
        assert.deepEqual([stage.phaseOf(name), stage.manager(name).starts], [undefined, starts]);
    });

test("what the user sets while the pods are gone stands afterwards", async () => {
  const stage = new DatabaseStage();
  await stage.begun();
  stage.write("group-a-1", "schedule");
  await stage.until("the marker", () => stage.allocation[1] !== undefined);
  deleteAll(stage);
  stage.standIn.persistent[allocationKey] = "new_primaries";
  await stage.until("the end", () => stage.claims.length === 0 && stage.allocation[1] === undefined, 120);
  assert.deepEqual(stage.allocation, ["new_primaries", undefined]);
});
