/** Labels that are set as annotations, and the reverse: each is reported once for each change, and does not count. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Harness, key, namespace } from "./harness.ts";

const minTime = "grafana.com/min-time-between-zones-downscale";
const at = (name: string) => ({ namespace, name });
const warnings = ({ events }: Harness) => events.filter((event) => event.startsWith("MisplacedKey"));

async function reconcileTwice(harness: Harness): Promise<void> {
  await harness.run();
  await harness.run(true);
  await harness.goOn(100);
}

test("a label that is set as an annotation causes one warning for each value, and none after its correction", async () => {
  const harness = await new Harness().prepare();
  harness.world.annotate(at("group-a"), { [minTime]: "15m" });
  await reconcileTwice(harness);
  const first = `MisplacedKey group-a: annotation ${minTime} is "15m", but Sluice reads this key only as label: move it there.`;
  assert.deepEqual([warnings(harness).length, warnings(harness)[0]?.startsWith(first)], [1, true]);
  assert.deepEqual(harness.malformed, [`group-a ${minTime}`]);
  harness.world.annotate(at("group-a"), { [minTime]: "20m" });
  await reconcileTwice(harness);
  assert.match(warnings(harness).join(), /is "20m"/);
  harness.restart();
  harness.world.store.patch("statefulsets", at("group-a"), { metadata: { labels: { [minTime]: "20m" } } });
  await reconcileTwice(harness);
  assert.deepEqual([warnings(harness).length, harness.malformed.length], [2, 2]);
});

test("in shadow mode such a warning is only logged and counted", async () => {
  const harness = await new Harness().prepare();
  harness.restart({ mode: "shadow" });
  harness.world.annotate(at("group-b"), { [minTime]: "15m" });
  await reconcileTwice(harness);
  assert.deepEqual([warnings(harness), harness.malformed], [[], [`group-b ${minTime}`]]);
});

for (const views of ["lists", "watches"]) {
  test(`a zone whose rollout-group is set as an annotation is reported beside the group that it would join, by ${views}`, async () => {
    const harness = await new Harness().prepare();
    const watching = views === "watches" ? await harness.watch() : undefined;
    const stray = { zones: ["c"], replicas: 1, namespace, labels: {} };
    for (const group of ["group", "other"]) harness.world.addGroup({ ...stray, group });
    harness.world.annotate(at("group-c"), { "rollout-group": key.group });
    harness.world.annotate(at("other-c"), { "rollout-group": "other" });
    await harness.goOn(100);
    await reconcileTwice(harness);
    assert.deepEqual(harness.malformed, ["group-c rollout-group"]);
    assert.match(
      warnings(harness).join("\n"),
      /^MisplacedKey group-c: annotation rollout-group is "group", .* Until then: without the label a StatefulSet is left alone\.$/,
    );
    assert.deepEqual(harness.ledger.members, ["group-a", "group-b"]);
    await watching?.stop();
  });
}
