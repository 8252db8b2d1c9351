/**
 * Where rollout-operator does the same: a delay that cannot be read keeps the size, and a status never shows an intermediate
 * size.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { replicaTemplates } from "../../../fake-cluster/replica-template.ts";
import { Following, mirrors } from "./following.ts";

test("delay-malformed: a follower whose delay Sluice cannot read neither grows nor shrinks, and Sluice reports that", async () => {
  for (const text of ["1.5h", "never"]) {
    const delay = {
      "rollout-downscale-leader": "group-a",
      "rollout-delayed-downscale": text,
      "rollout-prepare-delayed-downscale-url": "http://pod/x",
    };
    const on = await Following.of({ b: delay, c: {} });
    on.scale("a", 7);
    await on.goOn(20_000);
    assert.deepEqual([on.sizes, on.harness.guard], [[7, 4, 4], "delay-malformed"]);
    assert.match(on.harness.verdicts.at(-1)?.message ?? "", /^group-b keeps its size: .*rollout-delayed-downscale is/);
    on.annotate("b", { ...delay, "rollout-delayed-downscale": "1h" });
    await on.goOn(20_000);
    assert.deepEqual(on.sizes, [7, 7, 4]);
  }
});

test("3.3: if another client changes the size of a zone and at once changes it back, Sluice never writes it to the mirrored object", async () => {
  const on = await Following.of({ a: mirrors, b: {}, c: {} });
  on.mirror(4);
  const written = new Set<number | undefined>();
  on.harness.world.store.onChange(replicaTemplates, () => written.add(on.mirroredStatus));
  await on.goOn(12_000);
  assert.ok(written.has(4), [...written].join());
  on.scale("a", 7);
  await on.goOn(60_000);
  assert.deepEqual([on.sizes, written.has(7)], [[4, 4, 4], false]);
});
