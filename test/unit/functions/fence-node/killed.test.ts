/** A fence goes on after a process that ended after any of its writes, and beside a second one (invariants A2, A3, A5 and A6). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { killAfter, reconcile, troubleAfter, troubles } from "./kills.ts";
import { agent, firstBoot, type NodeWorld, node, nodeWorld, outOfService, pod } from "./node-world.ts";

const confirm = (world: NodeWorld) =>
  world.annotate({ "sluice.dev/fence-confirmed": world.record()?.["fence-id"] ?? "" });

/** What happens to the node once its fence is armed, until its machine comes back. */
const ways: Readonly<Record<string, (world: NodeWorld, when: string) => Promise<void>>> = {
  async "comes back"() {},
  async "stays off"(world, when) {
    world.falls();
    confirm(world);
    await reconcile(world);
    assert.deepEqual(world.taints().includes(outOfService), true, when);
    await world.harness.goOn(60_000);
    await reconcile(world);
    assert.equal(world.record()?.["fence-phase"], "fenced", when);
  },
  async "is deleted and made again"(world, when) {
    const { store } = world.harness.world;
    const key = { namespace: "", name: node.name };
    const { uid } = store.get("nodes", key).metadata;
    const checks = watchDeletion(world, when);
    world.annotate({ "sluice.dev/fence-strategy": "node-deletion", "example.com/note": "kept" });
    world.falls();
    confirm(world);
    await reconcile(world);
    assert.equal(store.find("nodes", key), undefined, when);
    await world.harness.goOn(120_000);
    await reconcile(world);
    const restored = store.get("nodes", key);
    assert.notEqual(restored.metadata.uid, uid, when);
    assert.equal(restored.metadata.annotations?.["example.com/note"], "kept", when);
    assert.equal(world.record()?.["fence-phase"], "recovering", when);
    assert.equal(checks.deletions, 1, when);
    world.annotate({ "sluice.dev/fence-strategy": null });
  },
};

/** At each write of a Node or a record: a Node that is gone had our taint and evidence, and its record has the backup. */
function watchDeletion(world: NodeWorld, when: string): { readonly deletions: number } {
  const { store } = world.harness.world;
  const checks = { deletions: 0 };
  const check = () => {
    if (store.find("nodes", { namespace: "", name: node.name }) !== undefined) return;
    assert.match(world.record()?.["node-backup"] ?? "", /"example.com\/note":"kept"/, when);
    assert.equal(world.record()?.["fence-evidence"], "confirmed", when);
  };
  store.onChange("leases", check);
  store.onChange("nodes", ({ current, final }) => {
    check();
    if (current !== undefined) return;
    checks.deletions++;
    const { taints = [] } = final.spec ?? {};
    assert.deepEqual([...taints.map(({ key }) => key)], ["sluice.dev/fence"], when);
  });
  return checks;
}

for (const [way, play] of Object.entries(ways)) {
  for (const [what, trouble] of Object.entries(troubles)) {
    test(`a fence of a node that ${way} ends clean if ${what} after any of its writes`, async () => {
      let troubled = 0;
      for (let count = 0; count < 40; count++) {
        const when = `${what} after ${count}`;
        const world = nodeWorld();
        const { store } = world.harness.world;
        const { uid } = store.get("pods", pod).metadata;
        const isTroubled = troubleAfter(world, count, trouble);
        world.annotate({ "sluice.dev/unhealthy": "disk failed" });
        await reconcile(world);
        assert.match(world.armed() ?? "", new RegExp(` ${firstBoot}$`), when);
        await play(world, when);
        world.boot("boot-2");
        await reconcile(world);
        assert.equal(store.find("pods", pod)?.metadata.uid === uid, way === "comes back", when);
        assert.deepEqual([world.record(), world.armed(), world.taints()], [undefined, undefined, []], when);
        assert.deepEqual([world.texts(), world.slots()?.slots], [{}, []], when);
        assert.ok(store.find("nodes", { namespace: "", name: node.name }));
        if (!isTroubled()) break;
        troubled++;
      }
      assert.ok(troubled >= 10 && troubled < 40, `${troubled} times`);
    });
  }
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
