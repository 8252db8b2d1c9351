/** What a sweep does to the ledgers themselves (rule R4). */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Preconditions } from "../../functions/shared/cluster.ts";
import { sweepLedgers } from "../../functions/shared/ledgers.ts";
import type { GroupKey } from "../../functions/shared/statefulsets.ts";
import { key, ledgerKey, namespace, Passes, played } from "./passes.ts";

async function sweep(passes: Passes, groups: readonly GroupKey[]): Promise<GroupKey[]> {
  const settled: GroupKey[] = [];
  const settle = async (vanished: GroupKey) => void settled.push(vanished);
  await played(passes.timeline, sweepLedgers(passes.context, groups, settle));
  return settled;
}

const leases = (passes: Passes): string[] =>
  passes.world.store.list("leases").items.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);

test("a sweep makes the ledgers that groups lack, ahead of need", async () => {
  const passes = new Passes();
  await sweep(passes, [key, { namespace: "other", group: "Odd Group" }, { namespace, group: "second" }]);
  const made = leases(passes);
  assert.equal(made.length, 3);
  assert.ok(made.includes("db/sluice-group") && made.includes("db/sluice-second"));
  passes.forget();
  await sweep(passes, [key, { namespace: "other", group: "Odd Group" }, { namespace, group: "second" }]);
  assert.deepEqual(passes.words, ["list leases"]);
});

test("a group of the same name in another namespace has a ledger of its own", async () => {
  const passes = new Passes();
  await sweep(passes, [key]);
  await sweep(passes, [key, { ...key, namespace: "other" }]);
  assert.deepEqual(leases(passes), ["db/sluice-group", "other/sluice-group"]);
});

test("an empty ledger of a vanished group is removed by uid and resourceVersion", async () => {
  const passes = new Passes();
  await sweep(passes, [key]);
  const { uid, resourceVersion } = passes.world.store.get("leases", ledgerKey).metadata;
  assert.deepEqual(await sweep(passes, []), []);
  assert.deepEqual(leases(passes), []);
  const [deletion] = passes.calls.filter(({ verb }) => verb === "delete");
  assert.deepEqual(deletion?.given[2] as Preconditions, { uid, resourceVersion });
});

test("a ledger of a vanished group that still holds reservations is settled, not removed", async () => {
  const passes = new Passes();
  await sweep(passes, [key]);
  passes.writeLedger({ "sluice.dev/reservations": '{"group-a":{"0":["uid","other",1]}}' });
  assert.deepEqual(await sweep(passes, []), [key]);
  assert.deepEqual(leases(passes), ["db/sluice-group"]);
});

test("a ledger that somebody writes, removes or makes anew meanwhile is left alone", async () => {
  for (const meanwhile of ["write", "remove"]) {
    const passes = new Passes();
    await sweep(passes, [key]);
    passes.interfere = ({ verb }) => {
      if (verb !== "delete") return;
      if (meanwhile === "write") passes.writeLedger({ "sluice.dev/reservations": '{"group-a":{"0":["u","f",1]}}' });
      else passes.world.store.delete("leases", ledgerKey);
    };
    await sweep(passes, []);
    assert.deepEqual(leases(passes), meanwhile === "write" ? ["db/sluice-group"] : []);
  }
});

test("an unreadable ledger of a vanished group is left for a human", async () => {
  const passes = new Passes();
  await sweep(passes, [key]);
  passes.writeLedger({ "sluice.dev/reservations": "{" });
  assert.deepEqual(await sweep(passes, []), []);
  assert.deepEqual(leases(passes), ["db/sluice-group"]);
});

test("Leases of others are no ledgers: without the label, or without a group, they are not touched", async () => {
  const passes = new Passes();
  const { store } = passes.world;
  store.create("leases", namespace, { metadata: { name: "a-leader" } });
  const label = { "app.kubernetes.io/managed-by": "sluice" };
  store.create("leases", namespace, { metadata: { name: "b-labelled", labels: label } });
  const annotations = { "sluice.dev/group": "group" };
  store.create("leases", namespace, { metadata: { name: "c-unlabelled", annotations } });
  await sweep(passes, []);
  assert.deepEqual(leases(passes), ["db/a-leader", "db/b-labelled", "db/c-unlabelled"]);
});

test("a process that serves some namespaces neither sees nor removes the ledgers of others", async () => {
  const passes = new Passes();
  await sweep(passes, [key, { ...key, namespace: "other" }]);
  passes.restart({ namespaces: ["other"] });
  await sweep(passes, []);
  assert.deepEqual(leases(passes), ["db/sluice-group"]);
});

test("in shadow mode a sweep neither makes nor removes a ledger (R16)", async () => {
  const passes = new Passes();
  await sweep(passes, [key]);
  passes.restart({ mode: "shadow" });
  passes.forget();
  await sweep(passes, [{ namespace, group: "second" }]);
  assert.deepEqual(passes.words, []);
  assert.deepEqual(leases(passes), ["db/sluice-group"]);
});
