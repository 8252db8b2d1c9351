/** Groups whose pods no StatefulSet controls, such as those of FoundationDB: what is shown of them, and what that reads. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { escapeTexts } from "../../../../functions/shared/base/escape-control.ts";
import type { Status } from "../../../../functions/shared/contract/status.ts";
import { makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { renderPage } from "../../../../triggers/status/page.ts";
import { group, owner } from "../../../support/owned.ts";
import { missingIn } from "../../../support/page-compared.ts";
import { readElements } from "../../../support/page-elements.ts";
import { createLedgerOf, createOwnedGroup } from "../../../support/status-groups.ts";
import { failing, started } from "./started.ts";

const namespace = "app";
const lists = ["list persistentvolumeclaims", "list pods", "list statefulsets"];

/** A group of which a pod is missing, with a claim and a verdict in its ledger. */
async function readOwned(): Promise<Status | undefined> {
  const { world, read, cluster } = await started();
  const uids = createOwnedGroup(world, namespace, ["a", "b"], 3);
  const nowMs = cluster.serverTimeMs();
  const members = [{ first: 2 ** 30 + 5, last: 2 ** 30 + 5 }];
  const named = { id: "one", kind: "scale-down", zone: "b", members, by: "suspend-group" } as const;
  const claim = makeClaim({
    ...named,
    ...{ uids: { "b-1": uids.get("b-1") ?? assert.fail() }, stampMs: nowMs, phase: "confirmed", terms: "asked" },
  });
  const verdict = { guard: "zones-down", zone: "a", sentence: "a waits", since: nowMs, at: nowMs };
  const verdicts = JSON.stringify({ "suspend-group": verdict });
  const annotations = { "sluice.dev/claims": claim.line, "sluice.dev/verdicts": verdicts };
  world.store.patch("leases", { namespace, name: ledgerName(group) }, { metadata: { annotations } });
  world.store.delete("pods", { namespace, name: "a-2" }, {});
  return read(10);
}

test("without script the page has every field of the JSON of a group of another owner", async () => {
  const status = escapeTexts((await readOwned()) ?? assert.fail());
  assert.equal(
    status.groups.some((one) => one.owner === owner),
    true,
  );
  assert.deepEqual(missingIn(readElements(await renderPage(status)), status), []);
});

test("a group of another owner has its zones, pods, claims and verdicts, and no revision", async () => {
  const status = await readOwned();
  const [shown] = status?.groups.filter((one) => one.owner !== null) ?? [];
  assert.deepEqual(
    [shown?.group, shown?.owner, shown?.state, shown?.ready, shown?.wanted],
    [group, owner, "working", 5, 6],
  );
  assert.deepEqual(
    shown?.zones.map(({ name, wanted, ready, downCount, revision, cells }) => [
      name,
      wanted,
      ready,
      downCount,
      revision,
      cells,
    ]),
    [
      [
        "a",
        3,
        2,
        1,
        { from: null, to: null },
        [
          { first: 0, last: 1, cell: "ready" },
          { first: 2, last: 2, cell: "missing" },
        ],
      ],
      [
        "b",
        3,
        3,
        0,
        { from: null, to: null },
        [
          { first: 0, last: 0, cell: "ready" },
          { first: 1, last: 1, cell: "claimed" },
          { first: 2, last: 2, cell: "ready" },
        ],
      ],
    ],
  );
  assert.deepEqual(
    shown?.functions.map(({ function: by, recorded }) => [by, recorded.guard, recorded.sentence]),
    [["suspend-group", "zones-down", "a waits"]],
  );
  assert.deepEqual(status?.leftOut, []);
});

test("each LIST of its namespace is sent once in 10 s, however many groups there are, and none without a GET or without such a ledger", async () => {
  const { world, read, requests, goTo } = await started();
  await read(5);
  const without = requests();
  assert.deepEqual(
    without.filter((one) => lists.includes(one)),
    [],
  );
  createOwnedGroup(world, namespace, ["a"], 2);
  createLedgerOf(world, namespace, "owner:FoundationDBCluster.apps.foundationdb.org/second");
  await read(20);
  assert.deepEqual(
    requests()
      .filter((one) => lists.includes(one))
      .sort(),
    lists,
  );
  await read(25);
  assert.deepEqual(
    requests().filter((one) => lists.includes(one)),
    [],
  );
  assert.equal((await read(40))?.groups.length, 2, "that of the second owner has no pods");
  assert.deepEqual(
    requests()
      .filter((one) => lists.includes(one))
      .sort(),
    lists,
  );
  await goTo(600);
  assert.deepEqual(
    requests().filter((one) => lists.includes(one)),
    [],
  );
});

test("an owner whose ledger or pods are gone is not shown any more", async () => {
  const { world, read } = await started();
  createOwnedGroup(world, namespace, ["a"], 2);
  assert.equal((await read(10))?.groups.length, 2);
  world.store.delete("leases", { namespace, name: ledgerName(group) });
  assert.deepEqual(
    (await read(30))?.groups.map((one) => one.owner),
    [null],
  );
  createLedgerOf(world, namespace, group);
  assert.equal((await read(50))?.groups.length, 2);
  for (const { metadata } of world.store.list("persistentvolumeclaims").items)
    world.store.delete("persistentvolumeclaims", { namespace, name: metadata.name });
  for (const name of ["a-0", "a-1"]) world.store.delete("pods", { namespace, name }, { gracePeriodSeconds: 0 });
  assert.deepEqual(
    (await read(80))?.groups.map((one) => one.owner),
    [null],
  );
});

test("without the right to list volume claims the group is left out and named; while the API server is away it stays as it was", async () => {
  const message = 'persistentvolumeclaims is forbidden: User "sluice" cannot list resource "persistentvolumeclaims"';
  let code = 0;
  let isLost = false;
  const { world, read } = await started({
    beforeCall({ verb, resource }) {
      if (isLost && verb === "list" && resource === "persistentvolumeclaims") throw failing(code, message, resource);
    },
  });
  createOwnedGroup(world, namespace, ["a"], 2);
  assert.equal((await read(10))?.groups.length, 2);
  isLost = true;
  const away = await read(30);
  assert.deepEqual([away?.groups.length, away?.leftOut.map(({ part }) => part)], [2, [`group app/${group}`]]);
  code = 403;
  const refused = await read(50);
  assert.deepEqual(
    [refused?.groups.length, refused?.leftOut.map(({ part, why }) => [part, why])],
    [1, [[`group app/${group}`, `Sluice lacks the right to list persistentvolumeclaims: ${message}`]]],
  );
  isLost = false;
  const again = await read(70);
  assert.deepEqual([again?.groups.length, again?.leftOut], [2, []]);
});

test("of ledgers of more than 50 owners, which any account may write, the status reads 50, and says so", async () => {
  const { world, read, requests } = await started();
  for (let index = 0; index < 60; index++) createLedgerOf(world, namespace, `owner:Kind.example.com/${index}`);
  const status = await read(10);
  assert.deepEqual(
    status?.leftOut.map(({ part, why }) => [part, why]),
    [["further groups of other owners", "there are 10 beyond the 50 that are read"]],
  );
  assert.equal(requests().filter((one) => lists.includes(one)).length, 3);
});
