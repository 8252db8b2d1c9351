/** A fence announces itself in the ledgers of the groups with pods on the node, and its claims leave them before its record. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace, refused } from "../../shared/reconcile/harness.ts";
import { first, governedWorld, ledgerOf, second } from "./governed-world.ts";
import { fenceIdOf, pod, record } from "./node-world.ts";

const mark = { "sluice.dev/unhealthy": "disk failed" };

test("each group with pods on the node gets a claim before the taint, in the order of their names (R23)", async () => {
  const world = await governedWorld();
  const { store } = world.harness.world;
  world.annotate(mark);
  assert.equal(await world.reconcile(), "not-armed");
  const written = world.harness.acts.map(({ action, reason = "" }) => [action, /ledger of (\S+)/.exec(reason)?.[1]]);
  assert.deepEqual(written.slice(0, 5), [
    ["claim", undefined],
    ["take-slot", undefined],
    ["announce", "db/first"],
    ["announce", "db/group"],
    ["taint", undefined],
  ]);
  const [claim, ...more] = world.claims(second.group);
  assert.deepEqual(more, []);
  const stored = store.get("pods", pod);
  const id = fenceIdOf(world);
  assert.deepEqual(
    { ...claim, stampMs: 0 },
    {
      id: `${id}/group-a`,
      kind: "node",
      zone: "group-a",
      members: "0",
      phase: "announced",
      terms: "announced",
      uids: { "group-a-0": stored.metadata.uid },
      containers: { "group-a-0": [`0x0x${stored.metadata.uid}`.slice(0, 12)] },
      by: "fence-node",
      anchor: { resource: "leases", namespace: "sluice-fencing", name: "fence-a-0", annotation: "sluice.dev/fence-id" },
      stampMs: 0,
    },
  );
  assert.equal(world.claims(first.group).length, 1);
});

test("a node that comes back with its pods keeps its claims until they run anew, and then nothing of the fence is left", async () => {
  const world = await governedWorld();
  const { store } = world.harness.world;
  const { uid } = store.get("pods", pod).metadata;
  world.annotate(mark);
  await world.reconcile();
  world.falls();
  await world.live(30_000);
  assert.equal(world.claims(second.group)[0]?.phase, "announced");
  world.returns("boot-2");
  assert.equal(await world.reconcile(), "settling");
  assert.deepEqual(
    [world.claims(first.group)[0]?.phase, world.claims(second.group)[0]?.phase],
    ["returned", "returned"],
  );
  assert.deepEqual([world.taints(), world.texts()], [[], {}], "the Node is given back");
  await world.live(60_000);
  assert.equal(store.get("pods", pod).metadata.uid, uid);
  assert.deepEqual([world.claims(first.group), world.claims(second.group)], [[], []]);
  assert.deepEqual([world.record(), world.armed(), world.taints(), world.texts()], [undefined, undefined, [], {}]);
});

test("a machine that stays off has its claims until its pods are ready elsewhere, also while it stays off", async () => {
  const world = await governedWorld();
  world.annotate(mark);
  await world.reconcile();
  world.falls();
  world.annotate({ "sluice.dev/fence-confirmed": fenceIdOf(world) });
  await world.reconcile();
  assert.equal(world.claims(second.group)[0]?.phase, "announced");
  world.harness.world.kubelet.loseNodeForGood("a-0");
  await world.live(90_000);
  assert.equal(world.record()?.["fence-phase"], "fenced");
  assert.deepEqual([world.claims(first.group), world.claims(second.group)], [[], []]);
});

test("claims whose pods do not come back go 10 minutes after the Node is given back, and the record after them", async () => {
  const world = await governedWorld();
  world.annotate(mark);
  await world.reconcile();
  world.falls();
  world.boot("boot-2");
  await world.reconcile();
  await world.live(590_000);
  assert.equal(world.claims(second.group).length, 1);
  assert.notEqual(world.record(), undefined);
  await world.live(15_000);
  assert.deepEqual([world.claims(first.group), world.claims(second.group)], [[], []]);
  assert.deepEqual([world.record(), world.armed(), world.taints(), world.texts()], [undefined, undefined, [], {}]);
});

test("a mark that comes while claims settle asks for another fence: they go, and it announces itself anew", async () => {
  const world = await governedWorld();
  world.annotate(mark);
  await world.reconcile();
  const id = fenceIdOf(world);
  world.falls();
  world.boot("boot-2");
  await world.reconcile();
  world.annotate(mark);
  await world.reconcile();
  await world.reconcile();
  assert.notEqual(fenceIdOf(world), id);
  assert.deepEqual(
    [...world.claims(first.group), ...world.claims(second.group)].map((claim) => claim.id),
    [`${fenceIdOf(world)}/first-a`, `${fenceIdOf(world)}/group-a`],
  );
});

test("ledger: a ledger that cannot be reached is waited for before anything happens to the node, and those after it as well", async () => {
  const world = await governedWorld();
  world.harness.interfere = ({ verb, given: [resource, at] }) => {
    const isOne = resource === "leases" && (at as { name?: string }).name === ledgerOf(first.group).name;
    if (verb === "get" && isOne) throw refused(500, "etcd is away");
  };
  world.annotate(mark);
  assert.equal(await world.reconcile(), "ledger");
  assert.match(world.harness.verdicts.at(-1)?.message ?? "", /ledger of db\/first cannot be written.*etcd is away/);
  assert.deepEqual([world.taints(), world.armed(), world.record()?.["fence-hold"]], [[], undefined, "ledger"]);
  assert.deepEqual(world.claims(second.group), []);
  world.harness.interfere = () => {};
  assert.equal(await world.reconcile(), "not-armed");
  assert.equal(world.claims(second.group).length, 1);
});

test("ledger: a ledger whose write is refused is waited for, and the record says so", async () => {
  const world = await governedWorld();
  world.harness.interfere = ({ verb, given: [resource, at] }) => {
    const isOne = resource === "leases" && (at as { name?: string }).name === ledgerOf(first.group).name;
    if (verb === "patch" && isOne) throw refused(422, "a policy refuses it");
  };
  world.annotate(mark);
  assert.equal(await world.reconcile(), "ledger");
  assert.deepEqual([world.taints(), world.record()?.["fence-hold"]], [[], "ledger"]);
  world.harness.interfere = () => {};
  assert.equal(await world.reconcile(), "not-armed");
});

for (const [what, annotations] of [
  ["of another format", { "sluice.dev/format": "2" }],
  ["that is full", { "example.com/note": "x".repeat(200_000) }],
] as const) {
  test(`a ledger ${what} is passed by with a Warning, and stays as it is`, async () => {
    const world = await governedWorld();
    world.harness.world.annotate(ledgerOf(first.group), annotations, "leases");
    const before = world.harness.world.store.get("leases", ledgerOf(first.group));
    world.annotate(mark);
    assert.equal(await world.reconcile(), "not-armed");
    assert.deepEqual(world.harness.world.store.get("leases", ledgerOf(first.group)), before);
    assert.equal(world.claims(second.group).length, 1);
    const warnings = world.harness.events.filter((one) => one.startsWith("FenceUnannounced"));
    assert.equal(warnings.length, 1, warnings.join("\n"));
    assert.match(warnings[0] ?? "", /^FenceUnannounced a-0: the ledger of db\/first is passed by: /);
  });
}

test("a fence that is taken back takes its claims out first, and nothing of it is left", async () => {
  const world = await governedWorld();
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb === "patch" && resource === "nodes") throw refused(500);
  };
  world.annotate(mark);
  await assert.rejects(world.reconcile());
  assert.equal(world.claims(second.group).length, 1);
  world.harness.interfere = () => {};
  world.annotate({ "sluice.dev/unhealthy": null });
  assert.equal(await world.reconcile(), "not-marked");
  const actions = world.harness.acts.map(({ action, result }) => `${action} ${result}`);
  assert.deepEqual(actions.slice(-4), ["take-claims done", "take-claims done", "release-slot done", "end done"]);
  assert.deepEqual([world.claims(first.group), world.claims(second.group), world.record()], [[], [], undefined]);
});

test("claims of an older fence of the node go before those of this one come", async () => {
  const world = await governedWorld();
  const { store } = world.harness.world;
  world.annotate(mark);
  await world.reconcile();
  const older = fenceIdOf(world);
  store.delete("leases", record, {});
  await world.reconcile();
  const actions = world.harness.acts.map(({ action }) => action);
  const again = actions.slice(actions.lastIndexOf("claim"));
  assert.deepEqual(again.slice(0, 6), ["claim", "take-slot", "take-claims", "take-claims", "announce", "announce"]);
  const ids = [...world.claims(first.group), ...world.claims(second.group)].map(({ id }) => id);
  assert.ok(!ids.some((id) => id.startsWith(older)), ids.join());
});

test("without a record and a mark the claims of a fence go, before its taint shows no more that there was one", async () => {
  const world = await governedWorld();
  world.annotate(mark);
  await world.reconcile();
  world.harness.world.store.delete("leases", record, {});
  world.annotate({ "sluice.dev/unhealthy": null });
  world.harness.forget();
  await world.reconcile();
  const actions = world.harness.acts.map(({ action }) => action);
  assert.deepEqual(actions, ["take-claims", "take-claims", "clean-node", "disarm"]);
  assert.deepEqual([world.claims(first.group), world.claims(second.group)], [[], []]);
});

test("pods that no StatefulSet of a group owns get no claim", async () => {
  const world = await governedWorld();
  const labels = { "rollout-group": null };
  for (const name of ["group-a", "first-a"])
    world.harness.world.store.patch("statefulsets", { namespace, name }, { metadata: { labels } });
  world.annotate(mark);
  assert.equal(await world.reconcile(), "not-armed");
  assert.deepEqual([world.claims(first.group), world.claims(second.group)], [[], []]);
});
