/** Scale-downs that never come, and that no event reports: schedules undo them in time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { releasePrepared } from "../../../../functions/release-prepared/function.ts";
import { namespace, played } from "../../shared/reconcile/harness.ts";
import { foreignClaim } from "../prepare-downscale/downscales.ts";
import { standing } from "./unwoken.ts";

for (const views of ["watch", "list"] as const) {
  test(`a downscale that never comes is undone 90 to 100 s later by the timer of a standalone process, without an event (${views})`, async () => {
    const { world, process } = await standing(views);
    assert.equal(await process.guard("group-a", 2), "allowed");
    assert.equal(world.prepared.size, 3);
    await world.harness.goOn(85_000);
    assert.equal(world.prepared.size, 3, "the API server may still let it through");
    await world.harness.goOn(15_000);
    assert.deepEqual([world.prepared.size, world.claimed], [0, []]);
    assert.equal(await process.guard("group-b", 4), "allowed", "no other downscale of the group waits any more");
  });
}

test("while no downscale is open, each check between two sweeps is one LIST of Leases and nothing else", async () => {
  const { world, process } = await standing("watch");
  process.calls.length = 0;
  await world.harness.goOn(60_000);
  const calls = process.calls.filter(({ resource }) => resource !== "statefulsets" && resource !== "pods");
  assert.deepEqual([...new Set(calls.map(({ verb, resource }) => `${verb} ${resource}`))], ["list leases"]);
  assert.ok(process.calls.length <= 14, process.calls.map(({ verb, resource }) => `${verb} ${resource}`).join());
});

for (const by of ["follow-replicas", "prepare-delayed-downscale", "suspend-group"]) {
  test(`a scale-down of ${by} whose process was killed holds its group for no longer than 90 s and a tick`, async () => {
    const { world, process } = await standing("watch");
    const { uid } = world.harness.world.store.get("statefulsets", { namespace, name: "group-a" }).metadata;
    const stampMs = process.cluster.serverTimeMs();
    const claim = foreignClaim("group-a", uid, { id: `scale-down group-a ${stampMs}`, by, stampMs });
    const [lease] = world.harness.world.store.list("leases").items;
    const metadata = { annotations: { "sluice.dev/claims": claim.line } };
    world.harness.world.store.patch("leases", { namespace, name: lease?.metadata.name ?? "" }, { metadata });
    await world.harness.goOn(85_000);
    assert.equal(world.claimed.length, 1, "it may still be carried out");
    await world.harness.goOn(40_000);
    assert.deepEqual(world.claimed, []);
  });
}

test("Sluice reads only ledgers with a claim of a review, and those that it cannot parse", async () => {
  const { world, process } = await standing("watch");
  const due = async () => {
    const listed = releasePrepared.schedule?.listDue(process.context, undefined);
    return listed === undefined ? [] : played(world.harness.timeline, listed);
  };
  const write = (claims: string) => {
    const [lease] = world.harness.world.store.list("leases").items;
    assert.ok(lease !== undefined);
    const { name } = lease.metadata;
    const metadata = { annotations: { "sluice.dev/claims": claims } };
    world.harness.world.store.patch("leases", { namespace, name }, { metadata });
  };
  assert.deepEqual(await due(), []);
  assert.equal(await process.guard("group-a", 4), "allowed");
  const [claim] = world.claims;
  assert.equal((await due()).length, 1);
  write(claim?.line.replace("prepared-", "another-") ?? "");
  assert.deepEqual(await due(), []);
  write("no claim at all");
  assert.equal((await due()).length, 1);
});
