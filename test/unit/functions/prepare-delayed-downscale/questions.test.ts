/** Pods whose delay has passed are still asked about health (Q1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace } from "../../shared/reconcile/harness.ts";
import { Ingesters } from "./ingesters.ts";

const delayMs = 60_000;
const zoneA = { namespace, name: "group-a" };

test("health-bad: a pod with a health question stays until its answer is good, however long it has known that it leaves", async () => {
  const on = await Ingesters.of();
  on.harness.world.annotate(zoneA, {
    "sluice.dev/health-question": "http",
    "sluice.dev/health-url": "http://:8080/ready",
  });
  on.answer = (_pod, method) => (method === "GET" ? { status: 503, body: "" } : undefined);
  on.want(3);
  await on.goOn(delayMs + 60_000);
  assert.deepEqual([on.size("a"), on.claims], [4, []]);
  assert.equal(on.guard, "health-bad");
  on.answer = () => undefined;
  await on.goOn(60_000);
  assert.equal(on.size("a"), 3);
});
