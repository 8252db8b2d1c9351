/** What a process reads for the status: views in its memory, and ledgers while clients ask. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { showStatus } from "../../../../functions/show-status/function.ts";
import { createLedgerOf, createLoneRestart, loneGroup } from "../../../support/status-groups.ts";
import { createTestWorld } from "../../triggers/server/world.ts";
import { guards } from "./given.ts";
import { answeredBy, failing, started } from "./started.ts";

test("a GET lists ledgers, and budgets after 30 s of silence; further GETs of two seconds send nothing, nor does a process without GETs", async () => {
  const { goTo, standalone, requests } = await started();
  await goTo(600);
  assert.deepEqual(requests(), []);
  const readings = Array.from({ length: 50 }, () => standalone.readStatus?.());
  await goTo(601.5);
  readings.push(standalone.readStatus?.());
  await goTo(605);
  assert.deepEqual(requests(), ["list leases", "list events", "list zoneawarepoddisruptionbudgets"]);
  const all = await Promise.all(readings);
  assert.deepEqual(
    all[0]?.groups.map(({ group, state, ready, wanted }) => [group, state, ready, wanted]),
    [["ingester", "idle", 9, 9]],
  );
  assert.ok(
    all.slice(0, 50).every((one) => one === all[0]),
    "the clients of a second share one status",
  );
  assert.notEqual(all[50], all[0]);
  await goTo(1_200);
  assert.deepEqual(requests(), []);
});

test("a process without views shows no status", () => {
  const status = { definition: showStatus, guards, answeredBy };
  for (const views of ["list", "awake"] as const)
    assert.equal(createTestWorld({ status, settings: { views } }).start().readStatus, undefined, views);
  assert.equal(createTestWorld({}).start().readStatus, undefined);
});

test("a right that is missing leaves out the ledgers, says which right, and since when; groups are shown all the same", async () => {
  const message = 'leases is forbidden: User "sluice" cannot list resource "leases"';
  const { read } = await started({
    beforeCall({ resource }) {
      if (resource === "leases") throw failing(403, message);
    },
  });
  const first = await read(10);
  const [left] = first?.leftOut ?? [];
  assert.equal(left?.part, "ledgers");
  assert.equal(left?.why, `Sluice lacks the right to list leases: ${message}`);
  assert.deepEqual(
    first?.groups.map(({ group, ready }) => [group, ready]),
    [["ingester", 9]],
  );
  const later = await read(60);
  assert.equal(later?.leftOut[0]?.since, left?.since);
  assert.equal(later?.unansweredSince, null, "the API server has answered");
});

test("while the API server is away, the status says since when, and shows the groups as they were", async () => {
  let isAway = false;
  const { read } = await started({
    beforeCall() {
      if (isAway) throw failing(0, "connection refused");
    },
  });
  assert.equal((await read(10))?.unansweredSince, null);
  isAway = true;
  const first = await read(20);
  assert.equal(first?.unansweredSince, null, "not for five seconds yet");
  const later = await read(30);
  assert.equal(Date.parse(later?.at ?? "") - Date.parse(later?.unansweredSince ?? "") >= 5_000, true);
  assert.equal(later?.groups.length, 1);
  isAway = false;
  await read(40);
  assert.equal((await read(50))?.unansweredSince, null);
});

test("a group whose StatefulSets are gone is not shown any more", async () => {
  const { read, world } = await started();
  assert.equal((await read(10))?.groups.length, 1);
  for (const { metadata } of world.store.list("statefulsets").items) world.store.delete("statefulsets", metadata);
  assert.deepEqual((await read(20))?.groups, []);
});

test("a group that nothing but its ledger names is shown until its StatefulSet and its ledger are gone", async () => {
  const { read, world } = await started();
  createLoneRestart(world, "app");
  const names = ["sluice.dev/restart-manager", "sluice.dev/restart-manager-secret"];
  world.annotate({ namespace: "app", name: "alone-x" }, Object.fromEntries(names.map((name) => [name, null])));
  createLedgerOf(world, "app", loneGroup);
  const shown = async (seconds: number) => (await read(seconds))?.groups.map(({ group }) => group);
  assert.deepEqual(await shown(10), ["ingester", loneGroup]);
  world.store.delete("statefulsets", { namespace: "app", name: "alone-x" });
  world.store.delete("leases", { namespace: "app", name: ledgerName(loneGroup) });
  assert.deepEqual(await shown(20), ["ingester"]);
});

test("a Lease of another client is no ledger, whatever its name is, and one with the label of ledgers that cannot be read needs a person", async () => {
  const { read, world } = await started();
  const create = (name: string, metadata: object = {}) =>
    world.store.create("leases", "app", { metadata: { name, ...metadata }, spec: {} });
  const labels = { "app.kubernetes.io/managed-by": "sluice" };
  create("sluice-ingester");
  create("sluice-x", { labels });
  const first = await read(10);
  assert.deepEqual(
    first?.groups.map(({ group, state }) => [group, state]),
    [["ingester", "idle"]],
  );
  assert.deepEqual(first?.needsPerson, []);
  world.store.delete("leases", { namespace: "app", name: "sluice-ingester" });
  create("sluice-ingester", {
    labels,
    annotations: { "sluice.dev/group": "ingester", "sluice.dev/reservations": "?" },
  });
  assert.deepEqual(
    (await read(20))?.needsPerson.map(({ reason, object }) => [reason, object]),
    [["ledger-unreadable", "sluice-ingester"]],
  );
});
