/** Ledgers that are new, are made by a budget, or change while a fence announces itself. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fenceNode } from "../../../../functions/fence-node/function.ts";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { namespace, refused } from "../../shared/reconcile/harness.ts";
import { addBudget } from "../evaluate-eviction/group-commit/reviews.ts";
import { first, governedWorld, ledgerOf, second } from "./governed-world.ts";
import { fenceIdOf, fencing, pod, record } from "./node-world.ts";

const mark = { "sluice.dev/unhealthy": "disk failed" };

test("ledger: a group of a budget gets its ledger, and the fence waits until that is old enough for a write (R4)", async () => {
  const world = await governedWorld();
  const { store } = world.harness.world;
  for (const name of ["first-a", "group-a", "group-b"])
    store.patch("statefulsets", { namespace, name }, { metadata: { labels: { "rollout-group": null } } });
  addBudget(world.harness);
  world.annotate(mark);
  assert.equal(await world.reconcile(), "ledger");
  const at = { namespace, name: ledgerName("budget:budget") };
  assert.equal(store.get("leases", at).metadata.annotations?.["sluice.dev/claims"], undefined);
  assert.deepEqual(world.taints(), []);
  await world.harness.goOn(60_000);
  assert.equal(await world.reconcile(), "not-armed");
  const claims = store.get("leases", at).metadata.annotations?.["sluice.dev/claims"] ?? "";
  assert.deepEqual(
    claims.split("\n").map((line) => JSON.parse(line).id),
    [`${fenceIdOf(world)}/group-a`],
  );
});

test("a pod that was bound to the node between the claim and the taint is in the claim before the fence is armed", async () => {
  const world = await governedWorld();
  const { store } = world.harness.world;
  const { metadata, spec } = store.get("pods", pod);
  let uid: string | undefined;
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (uid !== undefined || verb !== "patch" || resource !== "nodes") return;
    const { labels, ownerReferences } = metadata;
    const late = { metadata: { name: "group-a-7", labels, ownerReferences }, spec: { ...spec, nodeName: "a-0" } };
    uid = store.create("pods", namespace, late).metadata.uid;
  };
  world.annotate(mark);
  await world.reconcile();
  await world.reconcile();
  const [claim] = world.claims(second.group);
  assert.deepEqual([claim?.members, claim?.uids["group-a-7"]], ["0,7", uid]);
  const actions = world.harness.acts.map(({ action }) => action);
  assert.ok(actions.lastIndexOf("announce") < actions.indexOf("arm"), actions.join());
});

test("a ledger that another client writes meanwhile is read again: its write stays, and the claim comes", async () => {
  const world = await governedWorld();
  const { uid } = world.harness.world.store.get("pods", { namespace, name: "first-a-2" }).metadata;
  let written = false;
  world.harness.interfere = ({ verb, given: [resource, at] }) => {
    const isOne = resource === "leases" && (at as { name?: string }).name === ledgerOf(first.group).name;
    if (written || verb !== "patch" || !isOne) return;
    written = true;
    const reservations = JSON.stringify({ "first-a": { 2: [uid, "x", world.harness.cluster.serverTimeMs()] } });
    world.harness.world.annotate(ledgerOf(first.group), { "sluice.dev/reservations": reservations }, "leases");
  };
  world.annotate(mark);
  await world.reconcile();
  const { annotations } = world.harness.world.store.get("leases", ledgerOf(first.group)).metadata;
  assert.match(annotations?.["sluice.dev/reservations"] ?? "", /first-a/);
  assert.equal(world.claims(first.group).length, 1);
});

test("a ledger that refuses every write once the fence is armed keeps no node from being given back", async () => {
  const world = await governedWorld();
  world.annotate(mark);
  await world.reconcile();
  assert.equal(world.record()?.["fence-phase"], "armed");
  let isRefusing = true;
  world.harness.interfere = ({ verb, given: [resource, at] }) => {
    const isOne = resource === "leases" && (at as { name?: string }).name === ledgerOf(first.group).name;
    if (isRefusing && verb === "patch" && isOne) throw refused(422, "a policy refuses it");
  };
  world.falls();
  world.returns("boot-2");
  await world.live(60_000);
  assert.deepEqual([world.taints(), world.texts()], [[], {}]);
  isRefusing = false;
  await world.live(900_000);
  assert.deepEqual([world.record(), world.claims(first.group), world.claims(second.group)], [undefined, [], []]);
});

test("claims of other nodes, of other functions and of other kinds stay as they are, to the byte", async () => {
  const world = await governedWorld();
  const common = { zone: "group-b", members: "1", stampMs: 1, phase: "announced", terms: "announced" };
  const anchor = {
    resource: "leases",
    namespace: "sluice-fencing",
    name: "fence-b-1",
    annotation: "sluice.dev/fence-id",
  };
  const foreign = [
    { id: "f/group-b", kind: "node", by: "fence-node", ...common, anchor },
    { id: "two", kind: "node", by: "another", ...common, anchor: { ...anchor, name: record.name } },
    { id: "three", kind: "later", zone: "group-b" },
  ].map((one) => JSON.stringify(one));
  world.harness.world.annotate(ledgerOf(second.group), { "sluice.dev/claims": foreign.join("\n") }, "leases");
  world.annotate(mark);
  await world.reconcile();
  assert.equal(world.claims(second.group).length, 4);
  world.falls();
  world.returns("boot-2");
  await world.live(60_000);
  assert.equal(world.record(), undefined);
  const { annotations } = world.harness.world.store.get("leases", ledgerOf(second.group)).metadata;
  assert.equal(annotations?.["sluice.dev/claims"], foreign.join("\n"));
});

test("each call about the objects of groups is a right of the function, in every namespace", async () => {
  const world = await governedWorld();
  const { store } = world.harness.world;
  store.patch("statefulsets", { namespace, name: "first-a" }, { metadata: { labels: { "rollout-group": null } } });
  addBudget(world.harness, { selector: { matchLabels: { "rollout-group": "first" } }, maxUnavailable: 1 });
  world.harness.writeLedger({ "sluice.dev/reservations": JSON.stringify({ gone: { 0: ["u", "x", 1] } }) });
  world.harness.forget();
  world.annotate(mark);
  await world.reconcile();
  await world.harness.goOn(60_000);
  await world.reconcile();
  world.falls();
  world.returns("boot-2");
  await world.live(60_000);
  assert.equal(world.record(), undefined);
  const { needs } = fenceNode;
  const wide = needs.filter(({ scope, resource }) => scope === "every-namespace" || resource === "nodes");
  const granted = new Set([
    ...wide.flatMap(({ verbs, resource }) => verbs.map((verb) => `${verb} ${resource}`)),
    ...["create events", "list volumeattachments"],
  ]);
  const isOfFencing = ({ given: [, at] }: { readonly given: readonly unknown[] }) =>
    at === fencing || (at as { readonly namespace?: string }).namespace === fencing;
  const used = world.harness.calls
    .filter((call) => !isOfFencing(call))
    .map(({ verb, resource }) => `${verb} ${resource}`);
  const without = [...new Set(used)].filter((one) => !granted.has(one));
  assert.deepEqual(without, []);
  const ofGroups = ["create leases", "get leases", "get pods", "get statefulsets", "list leases", "list pods"];
  for (const one of [...ofGroups, "list statefulsets", "list zoneawarepoddisruptionbudgets", "patch leases"])
    assert.ok(used.includes(one), `${one} is not needed`);
});

test("a ledger that cannot be made because its namespace ends is passed by, because its last pods may be those on the node", async () => {
  const world = await governedWorld();
  world.harness.world.store.delete("leases", ledgerOf(first.group), {});
  world.harness.interfere = ({ verb, given: [resource, at] }) => {
    if (verb === "create" && resource === "leases" && at === namespace)
      throw refused(403, "unable to create new content in namespace db because it is being terminated");
  };
  world.annotate(mark);
  assert.equal(await world.reconcile(), "not-armed");
  assert.equal(world.claims(second.group).length, 1);
  assert.ok(world.harness.events.some((one) => one.startsWith("FenceUnannounced a-0: the ledger of db/first")));
});
