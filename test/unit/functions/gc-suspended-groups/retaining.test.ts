/**
 * A volume that a user wants to keep is kept: the PersistentVolume of a deleted claim gets the reclaim policy Retain in time.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace, refused } from "../../shared/reconcile/harness.ts";
import { top, Volumes, volumes } from "../../shared/suspension/volumes.ts";

const remove = { settings: { volumeHold: "remove" } } as const;

/** A bound claim that was suspended for an hour, and that a user deleted some minutes later. */
async function deleted(texts: Record<string, string> = {}): Promise<Volumes> {
  const on = new Volumes("3600s");
  await on.suspended();
  on.bind(top);
  on.annotate(top, texts);
  on.world.store.delete(volumes, { namespace, name: top });
  await on.goOn(60_000);
  assert.ok(on.claim(top)?.metadata.deletionTimestamp !== undefined, "our finalizer keeps it");
  return on;
}

test("with VOLUME_HOLD=remove a volume claim that a user deleted goes only after its PersistentVolume has Retain, on hold or not", async () => {
  for (const texts of [{ hold: "true" }, {}]) {
    const on = await deleted(texts);
    on.restart(remove);
    const order: string[] = [];
    on.interfere = ({ verb, resource }) => {
      if (verb === "patch") order.push(resource ?? "");
    };
    await on.until(
      () => on.claim(top) === undefined,
      () => on.collect(),
    );
    assert.equal(on.reclaimPolicyOf(top), "Retain");
    assert.ok(order.indexOf("persistentvolumes") < order.indexOf(volumes), order.join());
    assert.match(on.events.join("\n"), /VolumeRetained data-group-a-2/);
  }
});

test("a volume that cannot get Retain keeps its claim: volume-not-retained is reported on it and in an Event, and the next reconcile tries again", async () => {
  const on = await deleted();
  on.restart(remove);
  on.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "persistentvolumes") throw refused(403, "not yours");
  };
  for (let round = 0; round < 3; round++) {
    await on.collect();
    await on.goOn(15_000);
  }
  assert.ok(on.claim(top)?.metadata.finalizers?.includes("sluice.dev/volume-hold"));
  const [guard] = (on.recorded(top, "suspend-message") ?? "").split(": ", 1);
  assert.equal(guard, "volume-not-retained");
  assert.equal(on.events.filter((text) => text.includes("does not get the reclaim policy Retain")).length, 1);
  assert.ok(on.problems.some((text) => text.includes("not yours")));
  assert.ok(
    on.acts.some(({ result }) => result === "failed" || result === "refused"),
    JSON.stringify(on.acts.at(-1)),
  );
  on.interfere = () => {};
  await on.until(
    () => on.claim(top) === undefined,
    () => on.collect(),
  );
  assert.equal(on.reclaimPolicyOf(top), "Retain");
});

test("no function changes the reclaim policy of a PersistentVolume that is bound to another claim", async () => {
  const on = new Volumes("3600s");
  await on.suspended();
  on.bind(top, "uid-of-another");
  on.world.store.delete(volumes, { namespace, name: top });
  on.restart(remove);
  await on.until(
    () => on.claim(top) === undefined,
    () => on.collect(),
  );
  assert.equal(on.reclaimPolicyOf(top), "Delete");
});

test("with VOLUME_HOLD=remove the volume of a deleted claim whose StatefulSet is gone is also kept", async () => {
  const on = await deleted();
  on.world.store.delete("statefulsets", { namespace, name: "group-a" });
  await on.goOn(5_000);
  on.restart(remove);
  await on.sweepStrays();
  assert.equal(on.claim(top), undefined);
  assert.equal(on.reclaimPolicyOf(top), "Retain");
});

test("retain-pv between the mark and the deletion is honoured, on the claim and on its StatefulSet", async () => {
  for (const where of ["claim", "set"]) {
    const on = new Volumes("60s");
    await on.suspended();
    on.bind(top);
    await on.goOn(61_000);
    await on.marked();
    if (where === "claim") on.annotate(top, { "retain-pv": "true" });
    else on.policy("group-a", { "retain-pv": "true" });
    await on.until(
      () => on.claim(top) === undefined,
      () => on.collect(),
    );
    assert.equal(on.reclaimPolicyOf(top), "Retain", where);
  }
});

test("the second reconcile sees retain-pv that a StatefulSet gets while its volume is marked", async () => {
  const on = new Volumes("60s");
  await on.suspended();
  on.bind(top);
  await on.goOn(61_000);
  on.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === volumes) on.policy("group-a", { "retain-pv": "true" });
  };
  await on.until(
    () => on.claim(top) === undefined,
    () => on.collect(),
  );
  assert.equal(on.reclaimPolicyOf(top), "Retain");
});
