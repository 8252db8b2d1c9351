/** How an act ends if the API server does not do what the act requests. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { failureMessage } from "../../../../triggers/workqueue/worker.ts";
import { Harness, refused } from "./harness.ts";

test("a single 401 at a deletion is no refusal: it is tried again after seven seconds, and the rollout ends", async () => {
  const harness = await new Harness({ replicas: 2, maxUnavailable: 1 }).prepare();
  harness.interfere = ({ verb, resource }) => {
    if (verb !== "delete" || resource !== "pods") return;
    harness.interfere = () => {};
    throw refused(401, "Unauthorized");
  };
  assert.equal(await harness.run(), 7_000);
  const [act] = harness.acts;
  assert.deepEqual(
    [act?.result, act?.reason],
    ["failed", "the API server does not accept Sluice's credentials: Unauthorized"],
  );
  assert.deepEqual(
    harness.events.filter((event) => event.startsWith("DeleteRefused")),
    [],
  );
  const startMs = harness.cluster.monotonicMs();
  while (harness.guard !== "done" && harness.cluster.monotonicMs() - startMs < 60_000) {
    await harness.goOn(500);
    await harness.run();
    assert.notEqual(harness.guard, "delete-refused");
  }
  assert.equal(harness.guard, "done");
});

test("a lasting 401 is reported each time in plain words, with the reason", () => {
  assert.equal(
    failureMessage(refused(401, "Unauthorized"), 1_600),
    "the API server does not accept Sluice's credentials: Unauthorized; tried again in 1600 ms",
  );
});
