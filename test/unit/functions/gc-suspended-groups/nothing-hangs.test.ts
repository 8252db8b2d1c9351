/**
 * A removal that cannot go on ends: its claim leaves the ledger, the group goes on, and deleted claims end after their time.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace } from "../../shared/reconcile/harness.ts";
import { top, Volumes, volumes } from "../../shared/suspension/volumes.ts";

const set = { namespace, name: "group-a" };
const foreign = "snapshot.storage.kubernetes.io/pvc-as-source-protection";

/** Runs both functions and the sweep, once in this many seconds. */
async function reconcileFor(on: Volumes, seconds: number, everyMs = 20_000): Promise<void> {
  for (let past = 0; past < seconds * 1_000; past += everyMs) {
    await on.suspend();
    await on.collect();
    await on.sweepStrays();
    on.calls.length = 0;
    await on.goOn(everyMs);
  }
}

/** The claim is marked for removal, but not deleted: the process has died in between. */
async function marked(): Promise<Volumes> {
  const on = new Volumes("60s");
  await on.suspended();
  await on.goOn(61_000);
  await on.marked();
  assert.equal(on.ledger.claims.length, 1);
  return on;
}

/** A rollout reaches the end of the other zone. */
async function rollsOn(on: Volumes): Promise<void> {
  on.changeImage("app:2");
  for (let round = 0; round < 60 && on.imageOf("group-b-2") !== "app:2"; round++) {
    await on.run(true);
    await on.goOn(5_000);
  }
  assert.equal(on.imageOf("group-b-2"), "app:2", on.verdicts.at(-1)?.message);
}

test("a StatefulSet that is deleted after the mark leaves no claim in the ledger: the other zones are rolled", async () => {
  const on = await marked();
  on.world.store.delete("statefulsets", set, { propagationPolicy: "Background" } as never);
  await reconcileFor(on, 400);
  assert.deepEqual(on.ledger.claims, []);
  assert.equal(on.claim(top)?.metadata.deletionTimestamp, undefined, "and its volume is kept");
  assert.equal(on.recorded(top, "suspend-state"), "Suspended");
  await rollsOn(on);
});

test("a StatefulSet that is created again after the mark leaves no claim in the ledger either", async () => {
  const on = await marked();
  const { spec, metadata } = on.world.store.get("statefulsets", set);
  on.world.store.delete("statefulsets", set, { propagationPolicy: "Orphan" } as never);
  await on.goOn(30_000);
  const { name, labels, annotations } = metadata;
  on.world.store.create("statefulsets", namespace, { metadata: { name, labels, annotations }, spec } as never);
  await reconcileFor(on, 60);
  assert.deepEqual(on.ledger.claims, []);
  assert.equal(on.claim(top)?.metadata.deletionTimestamp, undefined);
  assert.match(on.recorded(top, "suspend-message") ?? "", /^owner-replaced: /);
  await rollsOn(on);
});

test("a hold, a wish, a withdrawn request or the mode None between the mark and the deletion ends the claim", async () => {
  const message: readonly ((on: Volumes) => void)[] = [
    (on) => on.annotate(top, { hold: "true" }),
    (on) => on.policy("group-a", { hold: "true" }),
    (on) => on.annotate(top, { recover: "true" }),
    (on) => on.annotate(top, { suspend: null }),
    (on) => on.annotate(top, { "drained-at": null }),
    (on) => on.policy("group-a", { "removal-mode": "None" }),
  ];
  for (const annotate of message) {
    const on = await marked();
    const uid = on.claim(top)?.metadata.uid;
    annotate(on);
    await reconcileFor(on, 200, 5_000);
    assert.deepEqual(
      [on.claim(top)?.metadata.uid, on.claim(top)?.metadata.deletionTimestamp],
      [uid, undefined],
      String(annotate),
    );
    assert.notEqual(on.recorded(top, "suspend-state"), "Removing", String(annotate));
    assert.deepEqual(on.ledger.claims, [], String(annotate));
  }
});

test("recover between the mark and the deletion brings the pod back with the same volume", async () => {
  const on = await marked();
  on.annotate(top, { recover: "true" });
  await reconcileFor(on, 60, 2_000);
  assert.ok(on.pod("group-a-2") !== undefined);
  assert.equal(on.recorded(top, "recover"), undefined);
});

test("a foreign finalizer keeps only its own deleted volume claim: the ledger's claim ends", async () => {
  const on = new Volumes("60s");
  await on.suspended();
  const finalizers = [...(on.claim(top)?.metadata.finalizers ?? []), foreign];
  on.world.store.patch(volumes, { namespace, name: top }, { metadata: { finalizers } });
  await on.goOn(61_000);
  await reconcileFor(on, 60, 5_000);
  assert.deepEqual(on.claim(top)?.metadata.finalizers, [foreign]);
  assert.deepEqual(on.ledger.claims, []);
  assert.ok(
    on.verdicts.some(({ guard }) => guard === "finalizer-foreign"),
    "it is reported whose it is",
  );
  await rollsOn(on);
});

/** The two claims of a pod are marked. Then their user withdraws the request, and deletes the first claim. */
async function markedAndDeleted(on: Volumes, second: string, pods: 2 | 3): Promise<void> {
  on.ask(second);
  await on.suspended();
  await on.goOn(61_000);
  await on.marked();
  on.policy("group-a", { "suspend-duration": "1h" });
  // The process has died between the two marks.
  if (pods === 2) on.annotate(second, { "suspend-state": "Suspended", "removal-claim": null });
  for (const name of [top, second]) on.annotate(name, { suspend: "false" });
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
  test(`one of two volumes is marked and deleted by its user, ${what}: the ledger keeps no claim, and the other volume stays`, async () => {
    const on = new Volumes("60s", {}, { volumes: ["data", "journal"] });
    await markedAndDeleted(on, "journal-group-a-2", pods);
    if (finalizers !== undefined) on.world.store.patch(volumes, { namespace, name: top }, { metadata: { finalizers } });
    await reconcileFor(on, 400);
    assert.deepEqual(on.ledger.claims, []);
    assert.ok(on.claim(top) !== undefined, "its pod or its time keeps it");
    assert.ok(on.isKept("journal-group-a-2"));
  });

test("a hold after the deletion was sent also ends the ledger's claim, and keeps the volume", async () => {
  const on = await marked();
  on.world.store.delete(volumes, { namespace, name: top });
  on.annotate(top, { hold: "true" });
  await reconcileFor(on, 60, 5_000);
  assert.deepEqual(on.ledger.claims, []);
  assert.ok(on.claim(top)?.metadata.finalizers?.includes("sluice.dev/volume-hold"));
  on.annotate(top, { hold: null });
  await reconcileFor(on, 60, 5_000);
  assert.equal(on.claim(top), undefined);
});

/** With `whenDeleted: Delete`, the StatefulSet is deleted while a volume is suspended for an hour. */
async function deletedWithSet(texts: Record<string, string | null> = {}): Promise<Volumes> {
  const on = new Volumes("3600s");
  const spec = { persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete", whenScaled: "Retain" } };
  on.world.store.patch("statefulsets", set, { spec } as never);
  await on.goOn(1_000);
  await on.suspended();
  await on.suspend();
  on.bind(top);
  on.annotate(top, texts);
  on.world.store.delete("statefulsets", set, { propagationPolicy: "Background" } as never);
  await on.goOn(5_000);
  assert.ok(on.claim(top)?.metadata.deletionTimestamp !== undefined);
  return on;
}

test("a claim that is deleted with its StatefulSet is kept for its duration, an Event says until when, and then it goes", async () => {
  const on = await deletedWithSet();
  await reconcileFor(on, 3_000, 300_000);
  assert.ok(on.claim(top) !== undefined, "not before its time");
  const sent = on.events.filter((text) => text.startsWith(`VolumeRemovalWaiting ${top}`));
  assert.equal(sent.length, 1, sent.join());
  assert.match(
    sent[0] ?? "",
    /our finalizer keeps its volume until 2026-01-01T01:0\d:\d\dZ; .*PersistentVolume pv-data-group-a-2/,
  );
  await reconcileFor(on, 1_200, 300_000);
  assert.equal(on.claim(top), undefined);
  assert.equal(on.reclaimPolicyOf(top), "Delete", "a user asked for its removal, and did not take that back");
});

test("its duration is the last one of its StatefulSet; if that is unknown, the claim stays and says what to write", async () => {
  const on = new Volumes("3600s");
  await on.suspended();
  on.policy("group-a", { "suspend-duration": "2h" });
  await on.suspend();
  assert.equal(on.recorded(top, "suspend-kept-for"), "7200");
  const unknown = await deletedWithSet({ "suspend-kept-for": null });
  await reconcileFor(unknown, 7_200, 600_000);
  assert.ok(unknown.claim(top) !== undefined);
  assert.match(
    unknown.recorded(top, "suspend-message") ?? "",
    /^duration-missing: .*writes sluice.dev\/suspend-duration on it/,
  );
  unknown.annotate(top, { "suspend-duration": "1m" });
  await reconcileFor(unknown, 700, 300_000);
  assert.equal(unknown.claim(top), undefined);
});

test("a volume claim does not shorten the duration that its StatefulSet had before it went", async () => {
  const on = await deletedWithSet({ "suspend-duration": "0" });
  await reconcileFor(on, 1_200, 300_000);
  assert.ok(on.claim(top) !== undefined, "its StatefulSet said an hour");
  await reconcileFor(on, 3_600, 600_000);
  assert.equal(on.claim(top), undefined);
});

test("a claim whose request was withdrawn goes as well, and its PersistentVolume is kept", async () => {
  const on = await deletedWithSet({ suspend: null });
  await reconcileFor(on, 4_500, 300_000);
  assert.equal(on.claim(top), undefined);
  assert.equal(on.reclaimPolicyOf(top), "Retain");
});

test("withdrawn: a claim without a StatefulSet loses our finalizer when its request is withdrawn", async () => {
  const on = new Volumes("3600s");
  await on.suspended();
  on.world.store.delete("statefulsets", set, { propagationPolicy: "Background" } as never);
  await on.goOn(5_000);
  await on.sweepStrays();
  assert.ok(on.claim(top)?.metadata.finalizers?.includes("sluice.dev/volume-hold"), "owner-gone");
  on.annotate(top, { suspend: null });
  await on.sweepStrays();
  assert.ok(!on.claim(top)?.metadata.finalizers?.includes("sluice.dev/volume-hold"));
  assert.ok(on.verdicts.some(({ guard }) => guard === "withdrawn"));
});

test("a false mark on an orphaned claim releases nothing before its time", async () => {
  const on = await deletedWithSet();
  on.annotate(top, { "suspend-state": "Removing", "removal-claim": "made up" });
  await reconcileFor(on, 1_200, 300_000);
  assert.ok(on.claim(top) !== undefined);
});

test("a deleted claim whose pod is wanted again, or whose request was withdrawn, goes after its duration, and its PersistentVolume is kept", async () => {
  for (const change of ["wanted", "withdrawn"]) {
    const on = new Volumes("600s");
    await on.suspended();
    on.bind(top);
    on.world.store.delete(volumes, { namespace, name: top });
    if (change === "wanted") on.world.store.patch("statefulsets", set, { spec: { replicas: 3 } });
    else on.annotate(top, { suspend: null });
    await reconcileFor(on, 400, 20_000);
    assert.ok(on.claim(top)?.metadata.deletionTimestamp !== undefined, change);
    await reconcileFor(on, 400, 20_000);
    assert.equal(on.claim(top)?.metadata.deletionTimestamp, undefined, change);
    assert.equal(on.reclaimPolicyOf(top), "Retain", change);
  }
});
