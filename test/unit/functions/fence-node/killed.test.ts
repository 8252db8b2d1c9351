/** A process that ends after any of its writes leaves a fence that the next process goes on with (invariants A2, A3 and A6). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { agent, firstBoot, type NodeWorld, node, nodeWorld, outOfService, pod } from "./node-world.ts";

const writing = new Set(["create", "patch", "delete"]);

/** Ends the process after its `count`th write; every later process runs to its end. */
function killAfter({ harness }: NodeWorld, count: number): () => boolean {
  let writes = 0;
  let isKilled = false;
  harness.interfere = ({ verb, given: [resource] }) => {
    if (isKilled || !writing.has(verb) || resource === "events") return;
    writes++;
    if (writes <= count) return;
    isKilled = true;
    throw new Error("the process was killed");
  };
  return () => isKilled;
}

async function reconcile(world: NodeWorld): Promise<void> {
  try {
    await world.reconcile();
  } catch (error) {
    assert.match(String(error), /the process was killed/);
    await world.reconcile();
  }
}

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
      assert.deepEqual(world.slots()?.slots, [], `killed after ${count}`);
      assert.ok(store.find("nodes", { namespace: "", name: node.name }));
      if (!wasKilled()) break;
      killed++;
    }
    assert.ok(killed >= 10 && killed < 40, `${killed} kills`);
  });
}

test("a node that is silent in its new boot is fenced again and ends clean if the process is killed after any of the writes", async () => {
  let killed = 0;
  for (let count = 0; count < 40; count++) {
    const world = nodeWorld();
    world.annotate({ "sluice.dev/unhealthy": "disk failed" });
    await reconcile(world);
    world.boot("boot-2", false);
    await reconcile(world);
    await world.harness.goOn(61_000);
    const annotations = { "sluice.dev/agent-boot-id": "boot-2" };
    world.harness.world.store.patch("leases", agent, { metadata: { annotations } });
    const wasKilled = killAfter(world, count);
    await reconcile(world);
    assert.match(world.armed() ?? "", / boot-2$/, `killed after ${count}`);
    assert.deepEqual(world.slots()?.slots.length, 1, `killed after ${count}`);
    world.boot("boot-3");
    await reconcile(world);
    assert.deepEqual([world.record(), world.armed(), world.taints(), world.texts()], [undefined, undefined, [], {}]);
    assert.deepEqual(world.slots()?.slots, [], `killed after ${count}`);
    if (!wasKilled()) break;
    killed++;
  }
  assert.ok(killed >= 10 && killed < 40, `${killed} kills`);
});

test("a node that was fenced too often is emptied and ends clean if the process is killed after any of the writes", async () => {
  let killed = 0;
  for (let count = 0; count < 40; count++) {
    const world = nodeWorld();
    const settings = { fenceMostPerHour: 1 };
    world.annotate({ "sluice.dev/unhealthy": "disk failed" });
    await world.reconcile({ settings });
    const wasKilled = killAfter(world, count);
    world.boot("boot-2");
    await reconcile(world);
    assert.deepEqual(world.taints(), ["sluice.dev/fence", "sluice.dev/fence"], `killed after ${count}`);
    world.annotate({ "sluice.dev/unhealthy": null });
    await reconcile(world);
    assert.deepEqual([world.record(), world.armed(), world.taints(), world.texts()], [undefined, undefined, [], {}]);
    assert.deepEqual(world.slots()?.slots, [], `killed after ${count}`);
    if (!wasKilled()) break;
    killed++;
  }
  assert.ok(killed >= 5 && killed < 40, `${killed} kills`);
});
