/**
 * A process that ends after any of its writes leaves a fence whose claims the next process goes on with: no ledger learns of the
 * fence before those that come first, none of it lacks a claim when the node is tainted, and no claim is left (A6, A9, R23).
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { first, type GovernedWorld, governedWorld, ledgerOf, second } from "./governed-world.ts";
import { killAfter, reconcile } from "./kills.ts";
import { firstBoot, node, outOfService } from "./node-world.ts";

/** Lets three-second reconciles go on until the fence is over, for two minutes at most. */
async function untilOver(world: GovernedWorld): Promise<void> {
  for (let reconciles = 0; reconciles < 40 && world.record() !== undefined; reconciles++) {
    await world.harness.goOn(3_000);
    await reconcile(world);
  }
}

/** Notes what may never be, after each change of a ledger, a Node and a Lease of an agent. */
function watchOrder(world: GovernedWorld): readonly string[] {
  const wrong: string[] = [];
  const { store } = world.harness.world;
  let hasFenced = false;
  store.onChange("leases", ({ final: { metadata } }) => {
    const isSecond = metadata.name === ledgerOf(second.group).name;
    // Until the node is tainted no claim leaves a ledger here.
    if (isSecond && !hasFenced && world.claims(second.group).length > world.claims(first.group).length)
      wrong.push("the second ledger has the claim before the first one");
    if (metadata.name.startsWith("fence-") && world.record() === undefined) {
      const left = world.claims(first.group).length + world.claims(second.group).length;
      if (left > 0) wrong.push("the record went before the claims");
    }
  });
  store.onChange("nodes", () => {
    const isTainted = world.taints().includes("sluice.dev/fence");
    const silent = [first, second].filter(({ group }) => world.claims(group).length === 0);
    if (isTainted && !hasFenced && silent.length > 0) wrong.push("the node is tainted, and a ledger has no claim");
    hasFenced ||= isTainted;
  });
  return wrong;
}

for (const way of ["comes back", "stays off"] as const) {
  test(`the claims of a fence of a node that ${way} end clean if the process is killed after any of its writes`, async () => {
    let killed = 0;
    for (let count = 0; count < 40; count++) {
      const world = await governedWorld();
      const wrong = watchOrder(world);
      const wasKilled = killAfter(world, count);
      world.annotate({ "sluice.dev/unhealthy": "disk failed" });
      await reconcile(world);
      assert.match(world.armed() ?? "", new RegExp(` ${firstBoot}$`), `killed after ${count}`);
      world.falls();
      if (way === "stays off") {
        world.annotate({ "sluice.dev/fence-confirmed": world.record()?.["fence-id"] ?? "" });
        await reconcile(world);
        assert.ok(world.taints().includes(outOfService), `killed after ${count}`);
        await world.harness.goOn(60_000);
        await reconcile(world);
      }
      world.returns("boot-2");
      await reconcile(world);
      await untilOver(world);
      assertClean(world, wrong, `killed after ${count}`);
      assert.ok(world.harness.world.store.find("nodes", { namespace: "", name: node.name }));
      if (!wasKilled()) break;
      killed++;
    }
    assert.ok(killed >= 14 && killed < 40, `${killed} kills`);
  });
}

test("claims of a fence whose mark goes when its process is killed are taken out, though that is killed after any write as well", async () => {
  let announced = 0;
  for (const [count, more] of [0, 1, 2, 3, 4].flatMap((one) => [0, 1, 2, 3, 4].map((other) => [one, other] as const))) {
    const world = await governedWorld();
    const wrong = watchOrder(world);
    killAfter(world, count);
    world.annotate({ "sluice.dev/unhealthy": "disk failed" });
    await assert.rejects(world.reconcile(), /the process was killed/);
    announced = Math.max(announced, world.claims(first.group).length + world.claims(second.group).length);
    world.annotate({ "sluice.dev/unhealthy": null });
    killAfter(world, more);
    await reconcile(world);
    assertClean(world, wrong, `killed after ${count} and ${more}`);
  }
  assert.equal(announced, 2);
});

function assertClean(world: GovernedWorld, wrong: readonly string[], message: string): void {
  assert.deepEqual(wrong, [], message);
  assert.deepEqual(
    [world.record(), world.armed(), world.taints(), world.texts()],
    [undefined, undefined, [], {}],
    message,
  );
  assert.deepEqual([world.claims(first.group), world.claims(second.group)], [[], []], message);
}
