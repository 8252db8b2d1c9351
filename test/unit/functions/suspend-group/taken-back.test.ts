/** Another client takes the pods that the function has claimed before the function acts: their volumes are still protected. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace } from "../../shared/reconcile/harness.ts";
import { top, Volumes } from "../../shared/suspension/volumes.ts";

const zone = { namespace, name: "group-a" };
const topPod = { namespace, name: "group-a-2" };
const claimed = (on: Volumes) => on.ledger.claims.map((claim) => claim.zone);

/** Another client changes the zone between the claim and the GET before the size is changed. Its pods take a minute to go. */
async function changedMeanwhile(change: (on: Volumes) => void): Promise<Volumes> {
  const on = new Volumes();
  on.world.annotate(topPod, { "test.sluice.dev/gone-after-ms": "60000" }, "pods");
  on.ask(top);
  let isChanged = false;
  on.interfere = ({ verb, resource }) => {
    if (isChanged || verb !== "get" || resource !== "statefulsets" || claimed(on).length === 0) return;
    isChanged = true;
    change(on);
  };
  await on.until(
    () => isChanged,
    () => on.suspend(),
  );
  on.interfere = () => {};
  assert.deepEqual(claimed(on), ["group-a"]);
  return on;
}

test("a claim stands while its pods leave because of the size that another client gave their zone", async () => {
  const on = await changedMeanwhile(({ world }) => world.scale(zone, 2));
  for (let round = 0; round < 5; round++) {
    await on.goOn(2_000);
    await on.suspend();
    assert.notEqual(on.pod(topPod.name)?.metadata.deletionTimestamp, undefined, "the pod is terminating");
    assert.deepEqual(claimed(on), ["group-a"]);
  }
  await on.until(
    () => on.pod(topPod.name) === undefined && claimed(on).length === 0,
    () => on.suspend(),
  );
});

test("a claim that was not carried out ends at once if its zone wants its pods", async () => {
  const on = await changedMeanwhile(({ world }) => world.scale(zone, 4));
  on.annotate(top, { suspend: null });
  await on.suspend();
  assert.deepEqual(claimed(on), []);
  assert.equal(on.pod(topPod.name)?.metadata.deletionTimestamp, undefined);
});

test("such a claim also ends at once if another client makes the zone smaller and then larger again", async () => {
  const on = await changedMeanwhile(({ world }) => world.scale(zone, 2));
  await on.goOn(2_000);
  await on.suspend();
  assert.deepEqual(claimed(on), ["group-a"]);
  on.world.scale(zone, 3);
  on.annotate(top, { suspend: null });
  await on.suspend();
  assert.deepEqual(claimed(on), []);
});
