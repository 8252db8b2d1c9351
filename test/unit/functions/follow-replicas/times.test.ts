/**
 * A follower whose size a webhook reviews waits by itself for the times in the ledger, and sends no change that would be
 * refused.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Following } from "./following.ts";

const hourMs = 3_600_000;

/** Zone b follows a, and a webhook decides its size; a was made smaller a moment ago, which only the ledger shows. */
async function lowered(lastDownscales: (nowMs: number) => string): Promise<Following> {
  const on = await Following.of({ c: {} });
  on.label("a", { "min-time-between-zones-downscale": "1h" });
  on.label("b", { "prepare-downscale": "true" });
  on.harness.writeLedger({ "sluice.dev/last-downscales": lastDownscales(on.harness.timeline.nowMs()) });
  on.scale("a", 3);
  on.harness.world.settle();
  on.harness.forget();
  return on;
}

/** The Kubernetes Events about it: type and object of each. */
const eventsOf = ({ harness }: Following) =>
  harness.world.store
    .list("events")
    .items.map((event) => event as unknown as { type: string; message: string; involvedObject: { name: string } })
    .filter(({ message }) => message.startsWith("min-time-between-zones"))
    .map(({ type, message, involvedObject }) => `${type} ${involvedObject.name}: ${message}`);

test("min-time-between-zones: a follower reads the ledger's times, writes nothing until they have passed, and reports that once", async () => {
  const on = await lowered((nowMs) => JSON.stringify({ "group-a": nowMs }));
  await on.goOn(hourMs - 60_000);
  assert.equal(on.harness.guard, "min-time-between-zones");
  assert.match(
    on.harness.verdicts.at(-1)?.message ?? "",
    /^group-b keeps its size until .*: group-a was made smaller at /,
  );
  assert.equal(on.harness.count("patch statefulsets"), 0);
  assert.match(
    eventsOf(on).join("\n"),
    /^Normal group-b: min-time-between-zones: group-b keeps its size until [^\n]*$/,
  );
  await on.goOn(120_000);
  assert.deepEqual(on.sizes, [3, 3, 4]);
  assert.equal(on.harness.count("patch statefulsets"), 1);
});

test("an unknown time counts from the beginning of the ledger, as it does for the webhook", async () => {
  const on = await lowered(() => "{}");
  await on.goOn(60_000);
  assert.equal(on.harness.guard, "min-time-between-zones");
  assert.match(on.harness.verdicts.at(-1)?.message ?? "", /Sluice does not know when group-a was last made smaller/);
  assert.equal(on.harness.count("patch statefulsets"), 0);
});

test("last-downscale-malformed: times that Sluice cannot read block a follower, and it does not ask the webhook", async () => {
  const on = await lowered(() => "no list");
  await on.goOn(60_000);
  assert.equal(on.harness.guard, "last-downscale-malformed");
  assert.equal(on.harness.count("patch statefulsets"), 0);
});
