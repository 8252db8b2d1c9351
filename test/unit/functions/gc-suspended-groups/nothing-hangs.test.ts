/** A removal that cannot go on ends: its claim leaves the ledger, the group goes on, and what is deleted ends after its time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace } from "../../shared/reconcile/passes.ts";
import { top, Volumes, volumes } from "../../shared/suspension/volumes.ts";

const set = { namespace, name: "group-a" };
const foreign = "snapshot.storage.kubernetes.io/pvc-as-source-protection";

/** Both functions and the sweep, once every so many seconds. */
async function pass(on: Volumes, seconds: number, everyMs = 20_000): Promise<void> {
  for (let past = 0; past < seconds * 1_000; past += everyMs) {
    await on.suspend();
    await on.collect();
    await on.sweepStrays();
    on.calls.length = 0;
    await on.goOn(everyMs);
  }
}

/** Marked for its removal, and nothing is deleted: the process has died in between. */
async function marked(): Promise<Volumes> {
  const on = new Volumes("60s");
  await on.suspended();
  await on.goOn(61_000);
  await on.marked();
  assert.equal(on.ledger.claims.length, 1);
  return on;
}

/** A rollout gets to the end of the other zone. */
async function rollsOn(on: Volumes): Promise<void> {
  on.changeImage("app:2");
  for (let look = 0; look < 60 && on.imageOf("group-b-2") !== "app:2"; look++) {
    await on.run(true);
    await on.goOn(5_000);
  }
  assert.equal(on.imageOf("group-b-2"), "app:2", on.verdicts.at(-1)?.message);
}

test("a StatefulSet that goes away after the mark leaves no claim in the ledger: the other zones are rolled", async () => {
  const on = await marked();
  on.world.store.delete("statefulsets", set, { propagationPolicy: "Background" } as never);
  await pass(on, 400);
  assert.deepEqual(on.ledger.claims, []);
  assert.equal(on.claim(top)?.metadata.deletionTimestamp, undefined, "and its volume is kept");
  assert.equal(on.said(top, "suspend-state"), "Suspended");
  await rollsOn(on);
});

test("a StatefulSet that is made again after the mark leaves no claim in the ledger either", async () => {
  const on = await marked();
  const { spec, metadata } = on.world.store.get("statefulsets", set);
  on.world.store.delete("statefulsets", set, { propagationPolicy: "Orphan" } as never);
  await on.goOn(30_000);
  const { name, labels, annotations } = metadata;
  on.world.store.create("statefulsets", namespace, { metadata: { name, labels, annotations }, spec } as never);
  await pass(on, 60);
  assert.deepEqual(on.ledger.claims, []);
  assert.equal(on.claim(top)?.metadata.deletionTimestamp, undefined);
  assert.match(on.said(top, "suspend-message") ?? "", /^owner-replaced: /);
  await rollsOn(on);
});

test("a hold, a wish, a request that goes and the mode None are heard between the mark and the deletion, and end the claim", async () => {
  const words: readonly ((on: Volumes) => void)[] = [
    (on) => on.say(top, { hold: "true" }),
    (on) => on.policy("group-a", { hold: "true" }),
    (on) => on.say(top, { recover: "true" }),
    (on) => on.say(top, { suspend: null }),
    (on) => on.say(top, { "drained-at": null }),
    (on) => on.policy("group-a", { "removal-mode": "None" }),
  ];
  for (const say of words) {
    const on = await marked();
    const uid = on.claim(top)?.metadata.uid;
    say(on);
    await pass(on, 200, 5_000);
    assert.deepEqual(
      [on.claim(top)?.metadata.uid, on.claim(top)?.metadata.deletionTimestamp],
      [uid, undefined],
      String(say),
    );
    assert.notEqual(on.said(top, "suspend-state"), "Removing", String(say));
    assert.deepEqual(on.ledger.claims, [], String(say));
  }
});

test("recover between the mark and the deletion brings the pod back with the same volume", async () => {
  const on = await marked();
  on.say(top, { recover: "true" });
  await pass(on, 60, 2_000);
  assert.ok(on.pod("group-a-2") !== undefined);
  assert.equal(on.said(top, "recover"), undefined);
});

test("a foreign finalizer on what is deleted holds up its volume claim alone: the claim of the ledger ends", async () => {
  const on = new Volumes("60s");
  await on.suspended();
  const finalizers = [...(on.claim(top)?.metadata.finalizers ?? []), foreign];
  on.world.store.patch(volumes, { namespace, name: top }, { metadata: { finalizers } });
  await on.goOn(61_000);
  await pass(on, 60, 5_000);
  assert.deepEqual(on.claim(top)?.metadata.finalizers, [foreign]);
  assert.deepEqual(on.ledger.claims, []);
  assert.ok(
    on.verdicts.some(({ guard }) => guard === "finalizer-foreign"),
    "it is said whose it is",
  );
  await rollsOn(on);
});

/** Of a pod with two volumes: they are marked, their user asks for them no more, and deletes the first of them. */
async function markedAndDeleted(on: Volumes, second: string, pods: 2 | 3): Promise<void> {
  on.ask(second);
  await on.suspended();
  await on.goOn(61_000);
  await on.marked();
  on.policy("group-a", { "suspend-duration": "1h" });
  // The process has died between the two marks.
  if (pods === 2) on.say(second, { "suspend-state": "Suspended", "removal-claim": null });
  for (const name of [top, second]) on.say(name, { suspend: "false" });
  on.scale("group-a", pods);
  await on.goOn(5_000);
  assert.equal(on.pod("group-a-2") !== undefined, pods === 3);
  on.world.store.delete(volumes, { namespace, name: top });
  await on.collect();
  await on.suspend();
}

const cases: readonly (readonly [what: string, pods: 2 | 3, finalizers: readonly string[] | undefined])[] = [
  ["its pod runs again", 3, undefined],
  ["its pod runs again, and our finalizer is taken away", 3, ["kubernetes.io/pvc-protection"]],
  ["its pod is away", 2, undefined],
];

for (const [what, pods, finalizers] of cases)
  test(`one of two volumes is marked and deleted by its user, ${what}: no claim stays in the ledger, and the other volume does`, async () => {
    const on = new Volumes("60s", {}, { volumes: ["data", "journal"] });
    await markedAndDeleted(on, "journal-group-a-2", pods);
    if (finalizers !== undefined) on.world.store.patch(volumes, { namespace, name: top }, { metadata: { finalizers } });
    await pass(on, 400);
    assert.deepEqual(on.ledger.claims, []);
    assert.ok(on.claim(top) !== undefined, "its pod or its time keeps it");
    assert.ok(on.isKept("journal-group-a-2"));
  });

test("a hold that is said after the deletion was sent ends the claim, too, and keeps the volume", async () => {
  const on = await marked();
  on.world.store.delete(volumes, { namespace, name: top });
  on.say(top, { hold: "true" });
  await pass(on, 60, 5_000);
  assert.deepEqual(on.ledger.claims, []);
  assert.ok(on.claim(top)?.metadata.finalizers?.includes("sluice.dev/volume-hold"));
  on.say(top, { hold: null });
  await pass(on, 60, 5_000);
  assert.equal(on.claim(top), undefined);
});

/** `whenDeleted: Delete`, and the StatefulSet is deleted while a volume is suspended for an hour. */
async function deletedWithSet(texts: Record<string, string | null> = {}): Promise<Volumes> {
  const on = new Volumes("3600s");
  const spec = { persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete", whenScaled: "Retain" } };
  on.world.store.patch("statefulsets", set, { spec } as never);
  await on.goOn(1_000);
  await on.suspended();
  await on.suspend();
  on.bind(top);
  on.say(top, texts);
  on.world.store.delete("statefulsets", set, { propagationPolicy: "Background" } as never);
  await on.goOn(5_000);
  assert.ok(on.claim(top)?.metadata.deletionTimestamp !== undefined);
  return on;
}

test("what goes with its StatefulSet is kept for its time, an Event says until when, and then it ends", async () => {
  const on = await deletedWithSet();
  await pass(on, 3_000, 300_000);
  assert.ok(on.claim(top) !== undefined, "not before its time");
  const told = on.events.filter((text) => text.startsWith(`VolumeRemovalWaiting ${top}`));
  assert.equal(told.length, 1, told.join());
  assert.match(
    told[0] ?? "",
    /our finalizer keeps its volume until 2026-01-01T01:0\d:\d\dZ; .*PersistentVolume pv-data-group-a-2/,
  );
  await pass(on, 1_200, 300_000);
  assert.equal(on.claim(top), undefined);
  assert.equal(on.reclaimPolicyOf(top), "Delete", "a user asked for its removal, and did not take that back");
});

test("how long it is kept is what its StatefulSet said last; where that is not known, it stays and says what to write", async () => {
  const on = new Volumes("3600s");
  await on.suspended();
  on.policy("group-a", { "suspend-duration": "2h" });
  await on.suspend();
  assert.equal(on.said(top, "suspend-kept-for"), "7200");
  const unknown = await deletedWithSet({ "suspend-kept-for": null });
  await pass(unknown, 7_200, 600_000);
  assert.ok(unknown.claim(top) !== undefined);
  assert.match(
    unknown.said(top, "suspend-message") ?? "",
    /^duration-missing: .*writes sluice.dev\/suspend-duration on it/,
  );
  unknown.say(top, { "suspend-duration": "1m" });
  await pass(unknown, 700, 300_000);
  assert.equal(unknown.claim(top), undefined);
});

test("a volume claim does not cut short what its StatefulSet said before it went", async () => {
  const on = await deletedWithSet({ "suspend-duration": "0" });
  await pass(on, 1_200, 300_000);
  assert.ok(on.claim(top) !== undefined, "its StatefulSet said an hour");
  await pass(on, 3_600, 600_000);
  assert.equal(on.claim(top), undefined);
});

test("a claim whose request was taken away ends as well, and its PersistentVolume is kept", async () => {
  const on = await deletedWithSet({ suspend: null });
  await pass(on, 4_500, 300_000);
  assert.equal(on.claim(top), undefined);
  assert.equal(on.reclaimPolicyOf(top), "Retain");
});

test("withdrawn: a request that is taken back from a claim without a StatefulSet takes our finalizer away", async () => {
  const on = new Volumes("3600s");
  await on.suspended();
  on.world.store.delete("statefulsets", set, { propagationPolicy: "Background" } as never);
  await on.goOn(5_000);
  await on.sweepStrays();
  assert.ok(on.claim(top)?.metadata.finalizers?.includes("sluice.dev/volume-hold"), "owner-gone");
  on.say(top, { suspend: null });
  await on.sweepStrays();
  assert.ok(!on.claim(top)?.metadata.finalizers?.includes("sluice.dev/volume-hold"));
  assert.ok(on.verdicts.some(({ guard }) => guard === "withdrawn"));
});

test("a false mark on what its StatefulSet left behind lets go of nothing before its time", async () => {
  const on = await deletedWithSet();
  on.say(top, { "suspend-state": "Removing", "removal-claim": "made up" });
  await pass(on, 1_200, 300_000);
  assert.ok(on.claim(top) !== undefined);
});

test("a deleted claim whose pod is wanted again, or whose request was taken away, ends after its time, and its PersistentVolume is kept", async () => {
  for (const change of ["wanted", "withdrawn"]) {
    const on = new Volumes("600s");
    await on.suspended();
    on.bind(top);
    on.world.store.delete(volumes, { namespace, name: top });
    if (change === "wanted") on.world.store.patch("statefulsets", set, { spec: { replicas: 3 } });
    else on.say(top, { suspend: null });
    await pass(on, 400, 20_000);
    assert.ok(on.claim(top)?.metadata.deletionTimestamp !== undefined, change);
    await pass(on, 400, 20_000);
    assert.equal(on.claim(top)?.metadata.deletionTimestamp, undefined, change);
    assert.equal(on.reclaimPolicyOf(top), "Retain", change);
  }
});
