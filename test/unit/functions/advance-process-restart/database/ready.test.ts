/** A pod whose probe is slower than its process never becomes unready: its restart ends all the same. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { DatabaseStage } from "./stage.ts";

const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);

const readySince = (stage: DatabaseStage, name: string) =>
  stage.pod(name).status?.conditions?.find(({ type }) => type === "Ready")?.lastTransitionTime;

for (const phase of ["schedule", "schedule-rolling", "schedule-coordinated"])
  test(`${phase}: the claim is out within 5 s after the node is a member, although its pod was ready all the time`, async () => {
    const stage = new DatabaseStage();
    stage.world.annotate({ namespace: "db", name: "group-a" }, { "sluice.dev/restart-unchecked": "*" });
    await stage.begun();
    const [before] = names.map((name) => readySince(stage, name));
    assert.notEqual(before, undefined);
    const marked = phase === "schedule-coordinated" ? names : names.slice(0, 1);
    for (const name of marked) stage.write(name, phase);
    await stage.until("the start", () => marked.every((name) => stage.manager(name).starts === 2), 60);
    const memberMs = stage.cluster.monotonicMs();
    assert.equal(stage.claims.length, 1);
    await stage.until("the end", () => stage.claims.length === 0);
    const tookMs = stage.cluster.monotonicMs() - memberMs;
    assert.ok(tookMs <= 5_000, `${tookMs} ms`);
    for (const name of marked) assert.equal(readySince(stage, name), before, "the pod was never unready");
    assert.deepEqual(stage.allocation, [undefined, undefined]);
  });
