/** A sweep of ledgers where one group, or one Lease, is not as it should be: the others are swept all the same. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sweepBudgetLedgers, sweepLedgers } from "../../functions/shared/ledgers.ts";
import type { GroupKey } from "../../functions/shared/statefulsets.ts";
import { type Call, namespace, Passes, played, refused } from "./passes.ts";
import { addBudget } from "./reviews.ts";

const groups: readonly GroupKey[] = ["alpha", "beta", "gamma"].map((group) => ({ namespace, group }));
const label = { "app.kubernetes.io/managed-by": "sluice" };

async function sweep(passes: Passes, of = groups): Promise<unknown> {
  const settle = async (): Promise<void> => {};
  return played(passes.timeline, sweepLedgers(passes.context, of, settle, "test")).then(
    () => undefined,
    (error: unknown) => error,
  );
}

const leases = (passes: Passes): string[] =>
  passes.world.store
    .list("leases")
    .items.map(({ metadata }) => metadata.name)
    .sort();

const creates =
  (name: string) =>
  ({ verb, given }: Call) =>
    verb === "create" && (given[2] as { metadata: { name: string } }).metadata.name === name;

test("a Lease of somebody else's under a ledger's name is named once, and ends the sweep for no other group", async () => {
  const passes = new Passes();
  passes.world.store.create("leases", namespace, { metadata: { name: "sluice-alpha" } });
  for (let round = 0; round < 3; round++) assert.equal(await sweep(passes), undefined);
  assert.deepEqual(leases(passes), ["sluice-alpha", "sluice-beta", "sluice-gamma"]);
  assert.equal(passes.problems.length, 1);
  assert.match(
    passes.problems[0] ?? "",
    /^the ledger of alpha is left to the next sweep: Lease sluice-alpha cannot be read/,
  );
});

test("a namespace that is ending ends the sweep for no other group, and is said again once it had been well", async () => {
  const passes = new Passes();
  const ending = (call: Call): void => {
    if (creates("sluice-alpha")(call)) throw refused(403, "namespace db is being terminated");
  };
  passes.interfere = ending;
  for (let round = 0; round < 3; round++) assert.equal(await sweep(passes), undefined);
  assert.deepEqual(leases(passes), ["sluice-beta", "sluice-gamma"]);
  const said = "the ledger of alpha is left to the next sweep: namespace db is being terminated";
  assert.deepEqual(passes.problems, [said]);
  passes.interfere = () => {};
  await sweep(passes);
  passes.world.store.delete("leases", { namespace, name: "sluice-alpha" });
  passes.interfere = ending;
  await sweep(passes);
  assert.deepEqual(passes.problems, [said, said]);
});

test("a right that is missing for one group leaves the others swept, and the sweep says that it was not whole", async () => {
  const passes = new Passes();
  const words = 'leases.coordination.k8s.io is forbidden: User "u" cannot create resource "leases"';
  passes.interfere = (call) => {
    if (creates("sluice-beta")(call)) throw refused(403, words);
  };
  assert.equal(((await sweep(passes)) as Error).message, words);
  assert.deepEqual(leases(passes), ["sluice-alpha", "sluice-gamma"]);
  assert.equal(passes.problems.length, 1);
});

test("where three groups in a row get no answer the API server is away, and the rest is left to the next sweep", async () => {
  const passes = new Passes();
  passes.interfere = ({ verb }) => {
    if (verb === "create") throw refused(503, "away");
  };
  const many = Array.from({ length: 20 }, (_, index) => ({ namespace, group: `g-${index}` }));
  assert.equal(((await sweep(passes, many)) as Error).message, "away");
  assert.equal(passes.count("create leases"), 3);
  let creations = 0;
  passes.interfere = ({ verb }) => {
    if (verb === "create" && ++creations % 3 !== 0) throw refused(503, "away");
  };
  passes.forget();
  await sweep(passes, many);
  assert.equal(passes.count("create leases"), 20, "an answer in between begins the count anew");
});

test("a Lease with our label whose group is not what its name says is not removed, and holds no other up", async () => {
  const passes = new Passes();
  const annotations = { "sluice.dev/group": "other" };
  passes.world.store.create("leases", namespace, { metadata: { name: "sluice-alpha", labels: label, annotations } });
  const gone = { "sluice.dev/group": "gone" };
  passes.world.store.create("leases", namespace, {
    metadata: { name: "sluice-gone", labels: label, annotations: gone },
  });
  assert.equal(await sweep(passes), undefined);
  assert.deepEqual(leases(passes), ["sluice-alpha", "sluice-beta", "sluice-gamma"]);
});

test("a vanished group whose ledger may not be removed, or cannot be read, holds up no other", async () => {
  const passes = new Passes();
  await sweep(passes);
  passes.world.annotate({ namespace, name: "sluice-alpha" }, { "sluice.dev/reservations": "{" }, "leases");
  passes.interfere = ({ verb, given }) => {
    if (verb === "delete" && (given[1] as { name: string }).name === "sluice-beta")
      throw refused(403, "a webhook said no");
  };
  for (let round = 0; round < 2; round++) assert.equal(await sweep(passes, []), undefined);
  assert.deepEqual(leases(passes), ["sluice-alpha", "sluice-beta"]);
  assert.equal(passes.problems.length, 2);
});

test("the same holds for those who judge evictions, and for what is made of budgets", async () => {
  const passes = new Passes();
  for (const group of ["alpha", "beta"]) passes.world.addGroup({ namespace, group, zones: ["a", "b"], replicas: 1 });
  for (const group of ["alpha", "beta"])
    addBudget(passes, { selector: { matchLabels: { "rollout-group": group } } }, group);
  passes.world.store.create("leases", namespace, { metadata: { name: "sluice-alpha" } });
  await played(passes.timeline, sweepBudgetLedgers(passes.context, "test"));
  assert.deepEqual(leases(passes), ["sluice-alpha", "sluice-beta"]);
  assert.equal(passes.problems.length, 1);
});
