/** A reservation is released by the protocol or not at all. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace, Passes, refused } from "../../shared/reconcile/passes.ts";
import { sluice, writes } from "./terminal.ts";

const by = "advance-zone-rollout";
const podKey = { namespace, name: "group-a-0" };
const line = "release group group-a-0";

/** A group in which `group-a-0` is reserved, and stands: its deletion never arrived. */
async function reserved(): Promise<Passes> {
  const passes = await new Passes().prepare();
  passes.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === "pods") throw refused(503);
  };
  await passes.run();
  passes.interfere = () => {};
  passes.forget();
  return passes;
}

/** The same, and its pod has been terminating ever since, on a node that is gone. */
async function terminating(): Promise<Passes> {
  const passes = await new Passes().prepare();
  passes.world.kubelet.stop();
  await passes.run();
  passes.forget();
  return passes;
}

function reservedPods(passes: Passes): string[] {
  return passes.ledger.reservations.map(({ statefulSet, ordinal }) => `${statefulSet}-${ordinal}`);
}

test("a young reservation is refused, with from when on it can be released and what ends it by itself (R9, R10)", async () => {
  const passes = await reserved();
  await passes.goOn(10_000);
  const { code, out, said } = await sluice(passes, line);
  assert.deepEqual([code, out, said.length], [1, "", 1]);
  const at = new Date((passes.ledger.reservations[0]?.stampMs ?? 0) + 150_000).toISOString();
  assert.match(
    said[0] ?? "",
    /^group-a-0 is not released: advance-zone-rollout reserved it 1\d s ago; until 150 s after that/,
  );
  assert.ok(said[0]?.includes(`at ${at}, if its pod is still there then`), said[0]);
  assert.match(said[0] ?? "", /By itself: finished by its function's next reconcile/);
  assert.deepEqual(writes(passes), []);
});

test("one second before the 150 s it is refused, and from then on released, as any function would drop it (R10)", async () => {
  const passes = await reserved();
  const [{ stampMs = 0 } = {}] = passes.ledger.reservations;
  await passes.goOn(stampMs + 149_000 - passes.timeline.nowMs());
  assert.equal((await sluice(passes, line)).code, 1);
  assert.deepEqual(writes(passes), []);
  await passes.goOn(1_000);
  const before = passes.ledger;
  const { code, out } = await sluice(passes, line);
  assert.equal(code, 0);
  assert.match(
    out,
    /^group-a-0: released: .+ 150 s ago; no function can act on it any more, and its pod is still there\n$/,
  );
  assert.deepEqual(writes(passes), ["patch leases"]);
  assert.deepEqual(reservedPods(passes), []);
  assert.deepEqual(passes.ledger.verdicts, before.verdicts);
  assert.ok(passes.world.store.get("pods", podKey).metadata.deletionTimestamp === undefined);
});

test("the write is conditional on the ledger's uid and resourceVersion (R3), and keeps every other reservation", async () => {
  const passes = await reserved();
  const text = JSON.stringify({
    "group-a": { 0: ["gone", by, 1], 1: ["other", by, passes.timeline.nowMs()] },
  });
  await passes.goOn(200_000);
  passes.writeLedger({ "sluice.dev/reservations": text });
  const { uid, resourceVersion } = passes.world.store.get("leases", { namespace, name: "sluice-group" }).metadata;
  passes.forget();
  assert.equal((await sluice(passes, line)).code, 0);
  const patch = passes.calls.find(({ verb }) => verb === "patch")?.given[2] as { metadata: object };
  assert.deepEqual({ ...patch.metadata, annotations: undefined }, { uid, resourceVersion, annotations: undefined });
  assert.deepEqual(reservedPods(passes), ["group-a-1"]);
});

test("a pod on its way out, or not back, keeps its reservation for as long as that takes", async () => {
  const passes = await terminating();
  await passes.goOn(3_600_000);
  const { code, said } = await sluice(passes, line);
  assert.equal(code, 1);
  assert.match(said[0] ?? "", /the pod counts as down with or without its reservation, so a release changes nothing\./);
  assert.match(said[0] ?? "", /By itself: terminating; settles when the pod that replaces it is ready$/);
  passes.world.store.delete("pods", podKey, { gracePeriodSeconds: 0 });
  await passes.goOn(3_600_000);
  assert.match((await sluice(passes, line)).said[0] ?? "", /settles when the pod that replaces it is ready$/);
  assert.deepEqual(writes(passes), []);
});

test("what has settled is released at once, and settled-through keeps older views from deciding (R6, R8)", async () => {
  const passes = await new Passes().prepare();
  await passes.run();
  passes.world.settle();
  passes.forget();
  const revision = Number(passes.world.store.get("pods", podKey).metadata.resourceVersion);
  assert.ok((passes.ledger.settledThrough ?? 0) < revision);
  const { code, out } = await sluice(passes, line);
  assert.equal(code, 0);
  assert.match(out, /^group-a-0: released: .+; it has settled\n$/);
  assert.deepEqual(reservedPods(passes), []);
  assert.ok((passes.ledger.settledThrough ?? 0) >= revision);
});

test("where the StatefulSet is gone, it is released when no function can act any more, though its pod never ends", async () => {
  const passes = await terminating();
  passes.world.removeStatefulSet({ namespace, name: "group-a" });
  await passes.goOn(10_000);
  const early = await sluice(passes, line);
  assert.equal(early.code, 1);
  assert.match(
    early.said[0] ?? "",
    /it can be released in 1[34]\d s, at \S+Z\. By itself: terminating; settles when it is gone$/,
  );
  await passes.goOn(150_000);
  const { code, out } = await sluice(passes, line);
  assert.equal(code, 0);
  assert.match(out, /no function can act on it any more, and its StatefulSet group-a is gone\n$/);
  assert.deepEqual(reservedPods(passes), []);
  const pod = passes.world.store.get("pods", podKey);
  assert.notEqual(pod.metadata.deletionTimestamp, undefined);
  // Were the StatefulSet made again, no view from before the deletion would do.
  assert.ok((passes.ledger.settledThrough ?? 0) >= Number(pod.metadata.resourceVersion));
});

test("where the StatefulSet has only left the group, a pod on its way out keeps its reservation", async () => {
  const passes = await terminating();
  passes.world.store.patch(
    "statefulsets",
    { namespace, name: "group-a" },
    { metadata: { labels: { "rollout-group": null } } },
  );
  await passes.goOn(3_600_000);
  const { code, said } = await sluice(passes, line);
  assert.equal(code, 1);
  assert.match(said[0] ?? "", /changes nothing\. By itself: terminating; settles when it is gone$/);
  assert.deepEqual(writes(passes), []);
});

test("--dry-run says what would be done, and writes nothing", async () => {
  const passes = await reserved();
  assert.equal((await sluice(passes, `${line} --dry-run`)).code, 1);
  await passes.goOn(151_000);
  const { code, out } = await sluice(passes, `${line} --dry-run`);
  assert.equal(code, 0);
  assert.match(out, /^group-a-0: would be released: /);
  assert.deepEqual(writes(passes), []);
  assert.deepEqual(reservedPods(passes), ["group-a-0"]);
});

test("--wait waits until it may be released, and says so once", async () => {
  const passes = await reserved();
  const [{ stampMs = 0 } = {}] = passes.ledger.reservations;
  const { code, out, said } = await sluice(passes, `${line} --wait`);
  assert.equal(code, 0);
  assert.match(out, /^group-a-0: released: /);
  assert.equal(said.length, 1);
  assert.match(said[0] ?? "", /^waiting: group-a-0: advance-zone-rollout reserved it \d s ago; until 150 s/);
  const tookMs = passes.timeline.nowMs() - stampMs;
  assert.ok(tookMs >= 150_000 && tookMs < 154_000, String(tookMs));
});

test("--wait ends well when the reservation ends by itself, and says when it waits for something else", async () => {
  const passes = await reserved();
  passes.timeline.after(20_000, () => void passes.run());
  const { code, out, said } = await sluice(passes, `${line} --wait`);
  assert.deepEqual([code, reservedPods(passes)], [0, []]);
  assert.match(out, /^group-a-0: (released: .+ it has settled|nothing is left to release; .+)\n$/);
  assert.ok(said.length >= 1 && said.length <= 3, said.join("\n"));
});

test("a reservation that is renewed between the look and the write is not released (R3)", async () => {
  const passes = await reserved();
  await passes.goOn(151_000);
  const [{ uid = "" } = {}] = passes.ledger.reservations;
  passes.interfere = ({ verb }) => {
    if (verb !== "patch") return;
    const renewed = { "group-a": { 0: [uid, by, passes.timeline.nowMs()] } };
    passes.writeLedger({ "sluice.dev/reservations": JSON.stringify(renewed) });
  };
  const { code, said } = await sluice(passes, line);
  assert.equal(code, 1);
  assert.match(said[0] ?? "", /^group-a-0 is not released: advance-zone-rollout reserved it \d s ago/);
  assert.deepEqual(reservedPods(passes), ["group-a-0"]);
});

test("after five conflicts it gives up, and nothing was released (R3)", async () => {
  const passes = await reserved();
  await passes.goOn(151_000);
  let conflicts = 0;
  passes.interfere = ({ verb }) => {
    if (verb === "patch") passes.writeLedger({ other: String(++conflicts) });
  };
  const { code, said } = await sluice(passes, line);
  assert.deepEqual([code, conflicts, reservedPods(passes)], [1, 5, ["group-a-0"]]);
  assert.match(said[0] ?? "", /others write the ledger all the time; try again$/);
});

test("what is not reserved, has no ledger, or has one that cannot be read is told of, and nothing is written", async () => {
  const passes = await reserved();
  assert.deepEqual((await sluice(passes, "release group group-b-1")).said, [
    "group-b-1 is not reserved in the ledger sluice-group: reserved are group-a-0",
  ]);
  assert.deepEqual((await sluice(passes, "release other group-a-0")).said, [
    "other has no ledger in namespace db, so nothing is reserved",
  ]);
  passes.writeLedger({ "sluice.dev/reservations": "[" });
  const { code, said } = await sluice(passes, line);
  assert.equal(code, 1);
  assert.match(said[0] ?? "", /^Lease sluice-group cannot be read as a ledger/);
  assert.deepEqual(writes(passes), []);
});
