/** A process that ends after any of its writes leaves a fence that the next process goes on with (invariants A2, A3 and A6). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { killAfter, reconcile } from "./kills.ts";
import { firstBoot, node, nodeWorld, outOfService, pod } from "./node-world.ts";

const tainted = { key: outOfService, effect: "NoExecute" };

for (const way of ["comes back", "stays off"] as const) {
  test(`a fence of a node that ${way} ends clean if the process is killed after any of its writes`, async () => {
    let killed = 0;
    for (let count = 0; count < 40; count++) {
      const world = nodeWorld();
      const { store } = world.harness.world;
      const { uid } = store.get("pods", pod).metadata;
      const wasKilled = killAfter(world, count);
      world.annotate({ "sluice.dev/unhealthy": "disk failed" });
      await reconcile(world);
      assert.match(world.armed() ?? "", new RegExp(` ${firstBoot}$`), `killed after ${count}`);
      if (way === "stays off") {
        world.falls();
        world.annotate({ "sluice.dev/fence-confirmed": world.record()?.["fence-id"] ?? "" });
        await reconcile(world);
        assert.deepEqual(world.taints().includes(tainted.key), true, `killed after ${count}`);
        await world.harness.goOn(60_000);
        await reconcile(world);
        assert.equal(world.record()?.["fence-phase"], "fenced", `killed after ${count}`);
      }
      world.boot("boot-2");
      await reconcile(world);
      assert.equal(store.find("pods", pod)?.metadata.uid === uid, way === "comes back", `killed after ${count}`);
      assert.deepEqual([world.record(), world.armed(), world.taints(), world.texts()], [undefined, undefined, [], {}]);
      assert.ok(store.find("nodes", { namespace: "", name: node.name }));
      if (!wasKilled()) break;
      killed++;
    }
    assert.ok(killed >= 10 && killed < 40, `${killed} kills`);
  });
}
