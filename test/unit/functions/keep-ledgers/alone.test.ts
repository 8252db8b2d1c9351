/** A sweep of ledgers in which one group, or one Lease, is broken: the others are swept nevertheless. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupKey } from "../../../../functions/shared/workloads/statefulsets.ts";
import { type Call, Harness, namespace, refused } from "../../shared/reconcile/harness.ts";
import { addBudget } from "../evaluate-eviction/group-commit/reviews.ts";
import { leasesOf, sweepOver, sweep as sweepThere } from "./ledgers.ts";

const groups: readonly GroupKey[] = ["alpha", "beta", "gamma"].map((group) => ({ namespace, group }));
const label = { "app.kubernetes.io/managed-by": "sluice" };

const sweep = (harness: Harness, of = groups): Promise<unknown> => sweepOver(harness, of);
const leases = (harness: Harness): string[] => leasesOf(harness).map((path) => path.replace(/^.*\//, ""));

const creates =
  (name: string) =>
  ({ verb, given }: Call) =>
    verb === "create" && (given[2] as { metadata: { name: string } }).metadata.name === name;

test("Sluice reports another client's Lease with a ledger's name once, and still sweeps every other group", async () => {
  const harness = new Harness();
  harness.world.store.create("leases", namespace, { metadata: { name: "sluice-alpha" } });
  for (let round = 0; round < 3; round++) assert.equal(await sweep(harness), undefined);
  assert.deepEqual(leases(harness), ["sluice-alpha", "sluice-beta", "sluice-gamma"]);
  assert.equal(harness.problems.length, 1);
  assert.match(
    harness.problems[0] ?? "",
    /^the ledger of alpha waits for the next sweep: Lease sluice-alpha cannot be read/,
  );
});

test("Sluice sweeps every other group if a namespace is terminating, and reports this again after the namespace was healthy", async () => {
  const harness = new Harness();
  const ending = (call: Call): void => {
    if (creates("sluice-alpha")(call)) throw refused(403, "namespace db is being terminated");
  };
  harness.interfere = ending;
  for (let round = 0; round < 3; round++) assert.equal(await sweep(harness), undefined);
  assert.deepEqual(leases(harness), ["sluice-beta", "sluice-gamma"]);
  const first = "the ledger of alpha waits for the next sweep: namespace db is being terminated";
  assert.deepEqual(harness.problems, [first]);
  harness.interfere = () => {};
  await sweep(harness);
  harness.world.store.delete("leases", { namespace, name: "sluice-alpha" });
  harness.interfere = ending;
  await sweep(harness);
  assert.deepEqual(harness.problems, [first, first]);
});

test("if a right is missing for one group, the sweep covers the others, and reports that it was incomplete", async () => {
  const harness = new Harness();
  const message = 'leases.coordination.k8s.io is forbidden: User "u" cannot create resource "leases"';
  harness.interfere = (call) => {
    if (creates("sluice-beta")(call)) throw refused(403, message);
  };
  assert.equal(((await sweep(harness)) as Error).message, message);
  assert.deepEqual(leases(harness), ["sluice-alpha", "sluice-gamma"]);
  assert.equal(harness.problems.length, 1);
});

test("after three groups in a row without an answer the sweep considers the API server unreachable, and leaves the rest to the next sweep", async () => {
  const harness = new Harness();
  harness.interfere = ({ verb }) => {
    if (verb === "create") throw refused(503, "away");
  };
  const many = Array.from({ length: 20 }, (_, index) => ({ namespace, group: `g-${index}` }));
  assert.equal(((await sweep(harness, many)) as Error).message, "away");
  assert.equal(harness.count("create leases"), 3);
  let creations = 0;
  harness.interfere = ({ verb }) => {
    if (verb === "create" && ++creations % 3 !== 0) throw refused(503, "away");
  };
  harness.forget();
  await sweep(harness, many);
  assert.equal(harness.count("create leases"), 20, "an answer in between begins the count anew");
});

test("foreign Leases that block three groups delay no other group, because only silence means that the API server is unreachable", async () => {
  const harness = new Harness();
  const many = Array.from({ length: 5 }, (_, index) => ({ namespace, group: `g-${index}` }));
  for (const { group } of many.slice(0, 3))
    harness.world.store.create("leases", namespace, { metadata: { name: `sluice-${group}` } });
  assert.equal(await sweep(harness, many), undefined);
  assert.equal(leases(harness).length, 5);
});

test("a refusal restarts the count of missing answers", async () => {
  const harness = new Harness();
  const many = Array.from({ length: 4 }, (_, index) => ({ namespace, group: `g-${index}` }));
  harness.interfere = (call) => {
    if (creates("sluice-g-0")(call)) throw refused(403, "namespace db is being terminated");
    if (creates("sluice-g-1")(call) || creates("sluice-g-2")(call)) throw refused(503, "away");
  };
  assert.equal(((await sweep(harness, many)) as Error).message, "away");
  assert.deepEqual(leases(harness), ["sluice-g-3"]);
});

test("of several failures the sweep throws the most important one, and reports each with its group", async () => {
  const harness = new Harness();
  const problems: string[] = [];
  harness.restart({
    reporter: { ...harness.context.reporter, problem: (_key, by, text) => void problems.push(`${by}: ${text}`) },
  });
  const many = Array.from({ length: 3 }, (_, index) => ({ namespace, group: `g-${index}` }));
  harness.interfere = (call) => {
    if (creates("sluice-g-0")(call)) throw refused(403, "namespace db is being terminated");
    if (creates("sluice-g-1")(call)) throw refused(401, "Unauthorized");
    if (creates("sluice-g-2")(call)) throw refused(500, "broken");
  };
  assert.equal(((await sweep(harness, many)) as Error).message, "Unauthorized");
  assert.deepEqual(problems, [
    "keep-ledgers: the ledger of g-0 waits for the next sweep: namespace db is being terminated",
    "keep-ledgers: the ledger of g-1 waits for the next sweep: the API server does not accept Sluice's credentials: Unauthorized",
    "keep-ledgers: the ledger of g-2 waits for the next sweep: broken",
  ]);
});

test("a successful sweep clears the reports of sweeps, and no others", async () => {
  const harness = new Harness();
  const { sentEvents } = harness.context.memoryOf({ namespace, group: "alpha" });
  sentEvents.add("paused a 1");
  await sweep(harness);
  assert.deepEqual([...sentEvents], ["paused a 1"]);
});

test("Sluice does not remove a Lease with our label whose group does not match its name, and the Lease blocks no other", async () => {
  const harness = new Harness();
  const annotations = { "sluice.dev/group": "other" };
  harness.world.store.create("leases", namespace, { metadata: { name: "sluice-alpha", labels: label, annotations } });
  const gone = { "sluice.dev/group": "gone" };
  harness.world.store.create("leases", namespace, {
    metadata: { name: "sluice-gone", labels: label, annotations: gone },
  });
  assert.equal(await sweep(harness), undefined);
  assert.deepEqual(leases(harness), ["sluice-alpha", "sluice-beta", "sluice-gamma"]);
});

test("a vanished group whose ledger Sluice may not remove, or cannot read, blocks no other", async () => {
  const harness = new Harness();
  await sweep(harness);
  harness.world.annotate({ namespace, name: "sluice-alpha" }, { "sluice.dev/reservations": "{" }, "leases");
  harness.interfere = ({ verb, given }) => {
    if (verb === "delete" && (given[1] as { name: string }).name === "sluice-beta")
      throw refused(403, "a webhook said no");
  };
  for (let round = 0; round < 2; round++) assert.equal(await sweep(harness, []), undefined);
  assert.deepEqual(leases(harness), ["sluice-alpha", "sluice-beta"]);
  assert.equal(harness.problems.length, 2);
});

/** A group under a budget in each namespace, and the sweep of a process that handles both. */
async function sweepNamespaces(harness: Harness): Promise<unknown> {
  for (const one of [namespace, "other"]) {
    harness.world.addGroup({ namespace: one, group: "alpha", zones: ["x"], replicas: 1 });
    const spec = { selector: { matchLabels: { "rollout-group": "alpha" } }, maxUnavailable: 1 };
    harness.world.store.create("zoneawarepoddisruptionbudgets", one, { metadata: { name: "alpha" }, spec });
  }
  harness.restart({ namespaces: [namespace, "other"] });
  return sweepThere(harness).catch((error: unknown) => error);
}

test("a namespace that Sluice may not read blocks no other, and the first such answer reports that the sweep was incomplete", async () => {
  const harness = new Harness();
  const isIn = (call: Call, name: string) => (call.given[1] as { namespace?: string }).namespace === name;
  harness.interfere = (call) => {
    if (call.verb === "list" && isIn(call, namespace)) throw refused(403, "not here");
  };
  assert.equal(((await sweepNamespaces(harness)) as Error).message, "not here");
  assert.deepEqual(leases(harness), ["sluice-alpha"]);
  assert.ok(harness.calls.every((call) => call.verb !== "list" || isIn(call, namespace) || isIn(call, "other")));
  const neither = new Harness();
  neither.interfere = (call) => {
    if (call.verb === "list") throw refused(403, isIn(call, namespace) ? "not here" : "nor there");
  };
  assert.equal(((await sweepNamespaces(neither)) as Error).message, "not here");
});

test("a group whose ledger Sluice may not create delays no other namespace", async () => {
  const harness = new Harness();
  harness.interfere = (call) => {
    if (call.verb === "create" && call.given[1] === "other") throw refused(500, "broken");
  };
  assert.equal(((await sweepNamespaces(harness)) as Error).message, "broken");
  assert.deepEqual(leases(harness), ["sluice-alpha", "sluice-group"]);
});

test("the same applies to groups that budgets select", async () => {
  const harness = new Harness();
  for (const group of ["alpha", "beta"]) harness.world.addGroup({ namespace, group, zones: ["a", "b"], replicas: 1 });
  for (const group of ["alpha", "beta"])
    addBudget(harness, { selector: { matchLabels: { "rollout-group": group } } }, group);
  harness.world.store.create("leases", namespace, { metadata: { name: "sluice-alpha" } });
  await sweepThere(harness);
  assert.deepEqual(leases(harness), ["sluice-alpha", "sluice-beta", "sluice-group"]);
  assert.equal(harness.problems.length, 1);
});
