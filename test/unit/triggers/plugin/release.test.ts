/** The plugin releases a reservation by the rules of the ledger or not at all. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Harness, namespace, refused } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

const by = "advance-zone-rollout";
const podKey = { namespace, name: "group-a-0" };
const line = "release group group-a-0";

/** A group in which `group-a-0` is reserved and still exists: its deletion never arrived. */
async function reserved(): Promise<Harness> {
  const harness = await new Harness().prepare();
  harness.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === "pods") throw refused(503);
  };
  await harness.run();
  harness.interfere = () => {};
  harness.forget();
  return harness;
}

/** The same group, but its pod has been terminating ever since, on a node that is gone. */
async function terminating(): Promise<Harness> {
  const harness = await new Harness().prepare();
  harness.world.kubelet.stop();
  await harness.run();
  harness.forget();
  return harness;
}

function reservedPods(harness: Harness): string[] {
  return harness.ledger.reservations.map(({ statefulSet, ordinal }) => `${statefulSet}-${ordinal}`);
}

test("release refuses a recent reservation, and says when it can release it and what else ends it (R9, R10)", async () => {
  const harness = await reserved();
  await harness.goOn(10_000);
  const { code, out, err } = await sluice(harness, line);
  assert.deepEqual([code, out, err.length], [1, "", 1]);
  const at = new Date((harness.ledger.reservations[0]?.stampMs ?? 0) + 150_000).toISOString();
  assert.match(
    err[0] ?? "",
    /^group-a-0 is not released: advance-zone-rollout reserved it 1\d s ago; until 150 s after that/,
  );
  assert.ok(err[0]?.includes(`at ${at}, if its pod is still there then`), err[0]);
  assert.match(err[0] ?? "", /By itself: finished by its function's next reconcile/);
  assert.deepEqual(writes(harness), []);
});

test("release refuses until a reservation is 150 s old, when any function would drop it as well (R10)", async () => {
  const harness = await reserved();
  const [{ stampMs = 0 } = {}] = harness.ledger.reservations;
  await harness.goOn(stampMs + 149_000 - harness.timeline.nowMs());
  assert.equal((await sluice(harness, line)).code, 1);
  assert.deepEqual(writes(harness), []);
  await harness.goOn(1_000);
  const before = harness.ledger;
  const { code, out } = await sluice(harness, line);
  assert.equal(code, 0);
  assert.match(
    out,
    /^group-a-0: released: .+ 150 s ago; no function can act on it any more, and its pod is still there\n$/,
  );
  assert.deepEqual(writes(harness), ["patch leases"]);
  assert.deepEqual(reservedPods(harness), []);
  assert.deepEqual(harness.ledger.verdicts, before.verdicts);
  assert.ok(harness.world.store.get("pods", podKey).metadata.deletionTimestamp === undefined);
});

test("the write is conditional on the ledger's uid and resourceVersion (R3), and keeps every other reservation", async () => {
  const harness = await reserved();
  const text = JSON.stringify({
    "group-a": { 0: ["gone", by, 1], 1: ["other", by, harness.timeline.nowMs()] },
  });
  await harness.goOn(200_000);
  harness.writeLedger({ "sluice.dev/reservations": text });
  const { uid, resourceVersion } = harness.world.store.get("leases", { namespace, name: "sluice-group" }).metadata;
  harness.forget();
  assert.equal((await sluice(harness, line)).code, 0);
  const patch = harness.calls.find(({ verb }) => verb === "patch")?.given[2] as { metadata: object };
  assert.deepEqual({ ...patch.metadata, annotations: undefined }, { uid, resourceVersion, annotations: undefined });
  assert.deepEqual(reservedPods(harness), ["group-a-1"]);
});

test("a reservation stays while its pod is terminating or its replacement is not ready, however long that takes", async () => {
  const harness = await terminating();
  await harness.goOn(3_600_000);
  const { code, err } = await sluice(harness, line);
  assert.equal(code, 1);
  assert.match(err[0] ?? "", /the pod counts as down with or without its reservation, so a release changes nothing\./);
  assert.match(err[0] ?? "", /By itself: terminating; settles when the pod that replaces it is ready$/);
  harness.world.store.delete("pods", podKey, { gracePeriodSeconds: 0 });
  await harness.goOn(3_600_000);
  assert.match((await sluice(harness, line)).err[0] ?? "", /settles when the pod that replaces it is ready$/);
  assert.deepEqual(writes(harness), []);
});

test("a settled reservation is released at once, and settled-through keeps older views from deciding (R6, R8)", async () => {
  const harness = await new Harness().prepare();
  await harness.run();
  harness.world.settle();
  harness.forget();
  const revision = Number(harness.world.store.get("pods", podKey).metadata.resourceVersion);
  assert.ok((harness.ledger.settledThrough ?? 0) < revision);
  const { code, out } = await sluice(harness, line);
  assert.equal(code, 0);
  assert.match(out, /^group-a-0: released: .+; it has settled\n$/);
  assert.deepEqual(reservedPods(harness), []);
  assert.ok((harness.ledger.settledThrough ?? 0) >= revision);
});

test("if the StatefulSet is gone, release works once no function can act any more, even if the pod never ends", async () => {
  const harness = await terminating();
  harness.world.removeStatefulSet({ namespace, name: "group-a" });
  await harness.goOn(10_000);
  const early = await sluice(harness, line);
  assert.equal(early.code, 1);
  assert.match(
    early.err[0] ?? "",
    /it can be released in 1[34]\d s, at \S+Z\. By itself: terminating; settles when it is gone$/,
  );
  await harness.goOn(150_000);
  const { code, out } = await sluice(harness, line);
  assert.equal(code, 0);
  assert.match(out, /no function can act on it any more, and its StatefulSet group-a is gone\n$/);
  assert.deepEqual(reservedPods(harness), []);
  const pod = harness.world.store.get("pods", podKey);
  assert.notEqual(pod.metadata.deletionTimestamp, undefined);
  // If the StatefulSet were recreated, no view from before the deletion would be accepted.
  assert.ok((harness.ledger.settledThrough ?? 0) >= Number(pod.metadata.resourceVersion));
});

test("if the StatefulSet has only left the group, the reservation of a terminating pod stays", async () => {
  const harness = await terminating();
  harness.world.store.patch(
    "statefulsets",
    { namespace, name: "group-a" },
    { metadata: { labels: { "rollout-group": null } } },
  );
  await harness.goOn(3_600_000);
  const { code, err } = await sluice(harness, line);
  assert.equal(code, 1);
  assert.match(err[0] ?? "", /changes nothing\. By itself: terminating; settles when it is gone$/);
  assert.deepEqual(writes(harness), []);
});

test("--dry-run prints what release would do, and writes nothing", async () => {
  const harness = await reserved();
  assert.equal((await sluice(harness, `${line} --dry-run`)).code, 1);
  await harness.goOn(151_000);
  const { code, out } = await sluice(harness, `${line} --dry-run`);
  assert.equal(code, 0);
  assert.match(out, /^group-a-0: would be released: /);
  assert.deepEqual(writes(harness), []);
  assert.deepEqual(reservedPods(harness), ["group-a-0"]);
});

test("--wait waits until the reservation may be released, and says so once", async () => {
  const harness = await reserved();
  const [{ stampMs = 0 } = {}] = harness.ledger.reservations;
  const { code, out, err } = await sluice(harness, `${line} --wait`);
  assert.equal(code, 0);
  assert.match(out, /^group-a-0: released: /);
  assert.equal(err.length, 1);
  assert.match(err[0] ?? "", /^waiting: group-a-0: advance-zone-rollout reserved it \d s ago; until 150 s/);
  const tookMs = harness.timeline.nowMs() - stampMs;
  assert.ok(tookMs >= 150_000 && tookMs < 154_000, String(tookMs));
});

test("--wait succeeds if the reservation ends by itself, and says so if it waits for something else", async () => {
  const harness = await reserved();
  harness.timeline.after(20_000, () => void harness.run());
  const { code, out, err } = await sluice(harness, `${line} --wait`);
  assert.deepEqual([code, reservedPods(harness)], [0, []]);
  assert.match(out, /^group-a-0: (released: .+ it has settled|nothing is left to release; .+)\n$/);
  assert.ok(err.length >= 1 && err.length <= 3, err.join("\n"));
});

test("a reservation that is renewed between the read and the write is not released (R3)", async () => {
  const harness = await reserved();
  await harness.goOn(151_000);
  const [{ uid = "" } = {}] = harness.ledger.reservations;
  harness.interfere = ({ verb }) => {
    if (verb !== "patch") return;
    const renewed = { "group-a": { 0: [uid, by, harness.timeline.nowMs()] } };
    harness.writeLedger({ "sluice.dev/reservations": JSON.stringify(renewed) });
  };
  const { code, err } = await sluice(harness, line);
  assert.equal(code, 1);
  assert.match(err[0] ?? "", /^group-a-0 is not released: advance-zone-rollout reserved it \d s ago/);
  assert.deepEqual(reservedPods(harness), ["group-a-0"]);
});

test("after five conflicts release gives up, and the reservation stays (R3)", async () => {
  const harness = await reserved();
  await harness.goOn(151_000);
  let conflicts = 0;
  harness.interfere = ({ verb }) => {
    if (verb === "patch") harness.writeLedger({ other: String(++conflicts) });
  };
  const { code, err } = await sluice(harness, line);
  assert.deepEqual([code, conflicts, reservedPods(harness)], [1, 5, ["group-a-0"]]);
  assert.match(err[0] ?? "", /others write the ledger all the time; try again$/);
});

test("a missing reservation, a missing ledger and an unreadable ledger are reported, and nothing is written", async () => {
  const harness = await reserved();
  assert.deepEqual((await sluice(harness, "release group group-b-1")).err, [
    "group-b-1 is not reserved in the ledger sluice-group: reserved are group-a-0",
  ]);
  assert.deepEqual((await sluice(harness, "release other group-a-0")).err, [
    "other has no ledger in namespace db, so nothing is reserved",
  ]);
  harness.writeLedger({ "sluice.dev/reservations": "[" });
  const { code, err } = await sluice(harness, line);
  assert.equal(code, 1);
  assert.match(err[0] ?? "", /^Lease sluice-group cannot be read as a ledger/);
  assert.deepEqual(writes(harness), []);
});
