/** Evictions that pin no uid: what they may take is whatever has that name when they arrive (rule R11). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pinningPath, plainPaths } from "../../../../functions/evaluate-eviction/observe.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { namespace, played } from "../../shared/pass/passes.ts";
import { governedGroup, Replica } from "../../shared/review/reviews.ts";

test("pod-unseen: what goes by its name alone and is reserved nowhere was looked at a second ago at most (R11)", async () => {
  for (const [path, delayMs, guard] of [
    [pinningPath, 1_500, "exempt"],
    [plainPaths[0], 900, "exempt"],
    [plainPaths[0], 1_100, "pod-unseen"],
  ] as const) {
    const passes = await governedGroup();
    const found = await played(passes.timeline, passes.context.views.pod({ namespace, name: "group-a-0" }));
    const going = { ...(found ?? assert.fail()), finished: true };
    const views = (cluster: Cluster) => ({
      ...passes.context.views,
      pod: async () => going,
      // A process that was paused, or an API server that is slow, with the pod read before.
      ownerOf: async () => void (await cluster.sleep(delayMs)),
    });
    const replica = new Replica(passes, (cluster) => ({ views: views(cluster) }));
    const { name } = going;
    passes.world.store.putStatus("pods", passes.world.store.get("pods", { namespace, name }), { phase: "Succeeded" });
    const answer = await replica.answer(replica.review(name, { path }));
    assert.deepEqual(
      [answer.guard, answer.allowed ? 200 : answer.code],
      [guard, guard === "exempt" ? 200 : 429],
      `${path} after ${delayMs} ms`,
    );
  }
});
