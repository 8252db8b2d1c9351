/** How an act ends when the API server does not do what it is asked. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { failureMessage } from "../../../../triggers/workqueue/worker.ts";
import { Passes, refused } from "./passes.ts";

test("one 401 at a deletion is no refusal: it is tried again after seven seconds, and the rollout ends", async () => {
  const passes = await new Passes({ replicas: 2, maxUnavailable: 1 }).prepare();
  passes.interfere = ({ verb, resource }) => {
    if (verb !== "delete" || resource !== "pods") return;
    passes.interfere = () => {};
    throw refused(401, "Unauthorized");
  };
  assert.equal(await passes.run(), 7_000);
  const [act] = passes.acts;
  assert.deepEqual(
    [act?.result, act?.reason],
    ["failed", "the API server does not accept Sluice's credentials: Unauthorized"],
  );
  assert.deepEqual(
    passes.events.filter((event) => event.startsWith("DeleteRefused")),
    [],
  );
  const startMs = passes.cluster.monotonicMs();
  while (passes.guard !== "done" && passes.cluster.monotonicMs() - startMs < 60_000) {
    await passes.goOn(500);
    await passes.run();
    assert.notEqual(passes.guard, "delete-refused");
  }
  assert.equal(passes.guard, "done");
});

test("a 401 that stays is said in plain words each time, and why", () => {
  assert.equal(
    failureMessage(refused(401, "Unauthorized"), 1_600),
    "the API server does not accept Sluice's credentials: Unauthorized; tried again in 1600 ms",
  );
});
