/** What kubectl sluice shows of suspended volumes, and what it writes to recover one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Harness, namespace, refused } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

const claim = "data-group-a-1";
const at = { namespace, name: claim };

/** A volume claim of a zone with one pod, as suspend-group leaves it. */
function suspended(annotations: Readonly<Record<string, string>> = {}): Harness {
  const harness = new Harness({ replicas: 1, volumes: ["data"] });
  const { world } = harness;
  world.annotate({ namespace, name: "group-a" }, { "sluice.dev/suspend-duration": "7d" });
  const sinceMs = harness.cluster.serverTimeMs() - 86_400_000;
  const err = {
    "sluice.dev/suspend": "true",
    "sluice.dev/suspend-state": "Suspended",
    "sluice.dev/suspended-at": new Date(sinceMs).toISOString(),
    "sluice.dev/suspend-message": "suspended: group-a-1 is gone",
    ...annotations,
  };
  world.store.create("persistentvolumeclaims", namespace, {
    metadata: { name: claim, annotations: err, finalizers: ["sluice.dev/volume-hold"] },
    spec: { volumeName: "pv-1" },
  } as never);
  const status = { phase: "Bound", capacity: { storage: "10Gi" } };
  world.store.patch("persistentvolumeclaims", at, { status } as never, "status");
  harness.forget();
  return harness;
}

const wish = (harness: Harness) =>
  harness.world.store.get("persistentvolumeclaims", at).metadata.annotations?.["sluice.dev/recover"];

test("suspended prints each volume with its age, its remaining time, its size and what it waits for, and writes nothing", async () => {
  const harness = suspended();
  const { code, out } = await sluice(harness, "suspended");
  assert.equal(code, 0);
  assert.match(out, /^data-group-a-1 +group-a +Suspended +24 h +6 d +10Gi +suspended$/m);
  assert.match(out, /^suspended: group-a-1 is gone$/m);
  assert.match(out, /^1 volume claim, 10Gi$/m);
  assert.deepEqual(writes(harness), []);
  const [first] = JSON.parse((await sluice(harness, "suspended group -o json")).out).claims;
  assert.deepEqual(
    [first.pod, first.volume, first.bytes, first.recovering],
    ["group-a-1", "pv-1", 10 * 2 ** 30, false],
  );
  const other = await sluice(harness, "suspended absent");
  assert.deepEqual([other.code, other.out, other.err.length], [0, "", 1]);
});

test("recover writes only the request, under the revision that it has read; --dry-run writes nothing", async () => {
  const harness = suspended();
  const pretended = await sluice(harness, `recover ${claim} --dry-run`);
  assert.deepEqual([pretended.code, writes(harness), wish(harness)], [0, [], undefined]);
  const { code, out } = await sluice(harness, "recover group");
  assert.deepEqual([code, wish(harness)], [0, "true"]);
  assert.match(out, /^data-group-a-1: nothing removes it any more/);
  assert.deepEqual(writes(harness), ["patch persistentvolumeclaims"]);
});

test("recover is refused past the point of no return, even if the state changes between its read and its write", async () => {
  const harness = suspended({ "sluice.dev/suspend-state": "Removing" });
  const late = await sluice(harness, `recover ${claim}`);
  assert.deepEqual([late.code, late.out, wish(harness)], [1, "", undefined]);
  assert.match(late.err[0] ?? "", /it is too late.*kubectl patch pv pv-1/);
  const raced = suspended();
  let isRaced = false;
  raced.interfere = ({ verb, resource }) => {
    if (verb !== "patch" || resource !== "persistentvolumeclaims" || isRaced) return;
    isRaced = true;
    raced.world.annotate(at, { "sluice.dev/suspend-state": "Removing" }, "persistentvolumeclaims");
  };
  const lost = await sluice(raced, `recover ${claim}`);
  assert.deepEqual([lost.code, lost.out, wish(raced)], [1, "", undefined]);
});

test("recover reports a name that does not exist or is not suspended, and a missing right, with one message each", async () => {
  const harness = suspended();
  const foreign = await sluice(harness, "recover data-group-b-0");
  assert.deepEqual([foreign.code, foreign.err.length], [1, 1]);
  harness.interfere = ({ verb }) => {
    if (verb === "patch") throw refused(403, "persistentvolumeclaims is forbidden");
  };
  const forbidden = await sluice(harness, `recover ${claim}`);
  assert.equal(forbidden.code, 1);
  assert.match(forbidden.err[0] ?? "", /^a right is missing/);
});

test("recover finds a process group by its cluster and its id, reports an id without a volume, and recovers the others", async () => {
  const harness = suspended();
  const labels = {
    "foundationdb.org/fdb-cluster-name": "orders",
    "foundationdb.org/fdb-process-group-id": "storage-1",
  };
  harness.world.store.patch("persistentvolumeclaims", at, { metadata: { labels } } as never);
  const elsewhere = await sluice(harness, "recover process-groups customers storage-1");
  assert.deepEqual([elsewhere.code, wish(harness)], [1, undefined]);
  const { code, err } = await sluice(harness, "recover process-groups orders storage-1 storage-2");
  assert.deepEqual([code, wish(harness)], [1, "true"]);
  assert.match(err.join(), /there is no volume of a process group "storage-2" in the FoundationDBCluster orders/);
});

test("--wait ends when the volume is in use again, or when the request is refused", async () => {
  const harness = suspended();
  harness.timeline.after(5_000, () => {
    const gone = { "sluice.dev/suspend": null, "sluice.dev/suspend-state": null, "sluice.dev/recover": null };
    const more = { "sluice.dev/suspended-at": null, "sluice.dev/suspend-message": null };
    const metadata = { annotations: { ...gone, ...more }, finalizers: [] };
    harness.world.store.patch("persistentvolumeclaims", at, { metadata } as never);
  });
  const { code, out } = await sluice(harness, `recover ${claim} --wait`);
  assert.deepEqual([code, out], [0, `${claim}: its pod is ready with the same volume, after 6 s\n`]);
});

test("recover says how to save a volume that a user has deleted, before FoundationDB's operator releases it", async () => {
  const harness = suspended();
  const finalizers = ["sluice.dev/volume-protection"];
  harness.world.store.patch("persistentvolumeclaims", at, { metadata: { finalizers } } as never);
  harness.world.store.delete("persistentvolumeclaims", at);
  const { code, err } = await sluice(harness, `recover ${claim}`);
  assert.equal(code, 1);
  assert.match(
    err[0] ?? "",
    /kubectl patch pv pv-1 .*"Retain".* take sluice.dev\/volume-protection from data-group-a-1; when FoundationDB's operator does not list/,
  );
  assert.equal(wish(harness), undefined);
});

test("a volume claim that is protected without a request is not listed as suspended", async () => {
  const harness = suspended();
  const none = { "sluice.dev/suspend": null, "sluice.dev/suspend-state": null, "sluice.dev/suspended-at": null };
  const annotations = { ...none, "sluice.dev/suspend-message": null };
  const finalizers = ["sluice.dev/volume-protection"];
  harness.world.store.patch("persistentvolumeclaims", at, { metadata: { annotations, finalizers } } as never);
  assert.equal((await sluice(harness, "suspended")).out, "");
});
