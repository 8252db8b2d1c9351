import assert from "node:assert/strict";
import { test } from "node:test";
import { type Cluster, ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { run } from "../../../../triggers/plugin/command.ts";
import type { GroupInspection } from "../../../../triggers/plugin/inspection.ts";
import { governedGroup, Replica } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { namespace, Passes, refused } from "../../shared/reconcile/passes.ts";
import { sluice, writes } from "./terminal.ts";

const budgets = "zoneawarepoddisruptionbudgets";

async function inspect(passes: Passes, line = "why group -o json"): Promise<GroupInspection> {
  const { code, out, said } = await sluice(passes, line);
  assert.deepEqual([code, said], [0, []]);
  return JSON.parse(out);
}

/** A group of two zones of two, in which the first pod is on its way to another revision. */
async function rolling(): Promise<Passes> {
  const passes = await new Passes().prepare();
  await passes.run();
  await passes.goOn(600);
  passes.forget();
  return passes;
}

function addBudget(passes: Passes, name: string, spec: object): void {
  const matchLabels = { "rollout-group": "group" };
  const body = {
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name },
    spec: { selector: { matchLabels }, ...spec },
  };
  passes.world.store.create(budgets, namespace, body);
}

test("in the middle of a rollout everything is said that keeps it waiting, and nothing is written", async () => {
  const passes = await rolling();
  const { code, out } = await sluice(passes, "why group");
  assert.equal(code, 0);
  assert.deepEqual(writes(passes), []);
  const lines = out.split("\n");
  assert.equal(lines[0], "group in namespace db: 3 of 4 pods ready, 3 outdated, 1 reserved");
  assert.match(out, /^ZONE +READY +OUTDATED +ROLLOUT LIMIT +DOWN$/m);
  assert.match(out, /^group-a +1\/2 +1 +1 +not ready: 0$/m);
  assert.match(out, /^group-b +2\/2 +2 +1 +-$/m);
  assert.match(out, /^group-a-0 +advance-zone-rollout +\d s +settles when the pod that replaces it is ready$/m);
  assert.match(out, /^advance-zone-rollout said rolling, for \d s, written \d s ago$/m);
  assert.match(out, /^Next: budget\n {2}group-a: 1 of 2 down \(1 not ready\), 1 may be down; 1 outdated pods wait$/m);
  for (const line of lines) assert.equal(line, line.trimEnd());
});

test("a pod whose evictions were refused behind Sluice is told of, with why, and when it may be asked for again", async () => {
  const passes = await new Passes().prepare();
  const { uid } = passes.world.store.get("pods", { namespace, name: "group-b-0" }).metadata;
  const entry = ["group-b-0", "another webhook refuses it", passes.cluster.serverTimeMs(), "evaluate-eviction"];
  passes.writeLedger({ "sluice.dev/refusals": JSON.stringify({ [`${uid}/evaluate-eviction`]: entry }) });
  assert.match((await sluice(passes, "why group")).out, /^group-b-0 +\d+ \w+ +another webhook refuses it$/m);
  assert.deepEqual(Object.keys((await inspect(passes)).refusals[0] ?? {}).sort(), ["pod", "sentence", "triedAgainAt"]);
});

test("a pod that is reserved and stands is ready, and may be gone at any moment", async () => {
  const passes = await new Passes().prepare();
  passes.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === "pods") throw refused(503);
  };
  await passes.run();
  assert.match((await sluice(passes, "why group")).out, /^group-a +2\/2 +2 +1 +reserved: 0$/m);
});

test("columns are aligned", async () => {
  const { out } = await sluice(await rolling(), "why group");
  const [heading = "", ...rows] = out.split("\n").filter((line) => /^(ZONE|group-[ab] )/.test(line));
  assert.equal(rows.length, 2);
  for (const row of rows) {
    for (const column of ["READY", "OUTDATED", "ROLLOUT LIMIT", "DOWN"]) {
      const at = heading.lastIndexOf(column);
      assert.match(row.slice(at - 2), /^ {2}\S/, `${column} of ${row}`);
    }
  }
});

test("without a group, one line for each: by label, by budget, and those of which a ledger is left", async () => {
  const passes = await rolling();
  passes.world.addGroup({ namespace, group: "other", zones: ["a"], replicas: 1 });
  addBudget(passes, "lonely", { selector: { matchLabels: { app: "lonely" } } });
  addBudget(passes, "unused", { selector: { matchLabels: { app: "nothing" } } });
  const template = passes.world.store.get("statefulsets", { namespace, name: "other-a" });
  passes.world.store.create("statefulsets", namespace, {
    metadata: { name: "lonely" },
    spec: {
      ...template.spec,
      selector: { matchLabels: { name: "lonely" } },
      template: { ...template.spec.template, metadata: { labels: { name: "lonely", app: "lonely" } } },
    },
  });
  const metadata = {
    name: "sluice-gone",
    labels: { "app.kubernetes.io/managed-by": "sluice" },
    annotations: { "sluice.dev/group": "gone" },
  };
  passes.world.store.create("leases", namespace, { metadata });
  const { code, out } = await sluice(passes, "why");
  assert.equal(code, 0);
  const rows = out.trimEnd().split("\n");
  assert.deepEqual(
    rows.map((row) => row.split(/ {2,}/)[0]),
    ["GROUP", "budget:lonely", "gone", "group", "other"],
  );
  assert.match(rows[3] ?? "", /^group +2 +3\/4 +3 +1 +- +budget: group-a: 1 of 2 down/);
  const listed = JSON.parse((await sluice(passes, "why -o json")).out);
  assert.deepEqual(
    listed.groups.map(({ group }: GroupInspection) => group),
    ["budget:lonely", "gone", "group", "other"],
  );
  const gone = await sluice(passes, "why gone");
  assert.match(gone.out, /^gone in namespace db: no StatefulSet is in it any more$/m);
  assert.match((await sluice(passes, "why budget:lonely")).out, /^lonely +\d\/1 +/m);
  // Nothing is rolled there, so that no rollout has anything to say of it.
  assert.deepEqual((await inspect(passes, "why budget:lonely -o json")).functions, []);
});

test("the JSON has the fields that are documented, and no others", async () => {
  const passes = await rolling();
  addBudget(passes, "b", { maxUnavailable: 1 });
  const inspection = await inspect(passes);
  const fields = (value: object | null | undefined) => Object.keys(value ?? {}).sort();
  const { zones, reservations, functions } = inspection;
  assert.deepEqual(
    fields(inspection),
    "at budgets claims functions group ledger namespace neverPossible refusals reservations ungovernable waiting zones".split(
      " ",
    ),
  );
  assert.deepEqual(fields(inspection.ledger), ["exists", "name", "unreadable"]);
  assert.deepEqual(
    fields(zones[0]),
    "down leaving maxUnavailable missingBesides name outdated paused ready updateStrategy wanted warnings".split(" "),
  );
  assert.deepEqual(zones[0]?.down, [{ pod: "group-a-0", ordinal: 0, why: "not ready" }]);
  assert.deepEqual(fields(reservations[0]), "abandonedFrom at function next pod standing uid".split(" "));
  assert.deepEqual(fields(functions[0]), ["function", "now", "recorded", "stale"]);
  assert.deepEqual(fields(functions[0]?.recorded), ["at", "guard", "sentence", "since", "zone"]);
  assert.deepEqual(fields(functions[0]?.now), ["guard", "recheckSeconds", "sentence", "zone"]);
  const { at = "", abandonedFrom = "" } = reservations[0] ?? {};
  assert.equal(Date.parse(abandonedFrom) - Date.parse(at), 150_000);
  const budget = { maxUnavailable: 1, maxUnavailablePercentage: null, podNamePartitionRegex: null };
  assert.deepEqual(inspection.budgets, [{ name: "b", ...budget, crossZoneEvictionDelaySeconds: 0, invalid: null }]);
});

test("of 2^31 missing pods the first thousand are listed, and how many there are besides", async () => {
  const passes = await rolling();
  passes.world.statefulSetController.stop();
  passes.world.scale({ namespace, name: "group-b" }, 2_147_483_647);
  const { zones } = await inspect(passes);
  const [, zone] = zones;
  assert.deepEqual([zone?.down.length, zone?.down[0]], [1_000, { pod: "group-b-2", ordinal: 2, why: "missing" }]);
  assert.equal(zone?.missingBesides, 2_147_482_645);
  const { out } = await sluice(passes, "why group");
  assert.match(out, /^group-b +2\/2147483647 +0 +1 +missing: 2-1001; 2147482645 more missing$/m);
});

test("a verdict that is not what its function decides now is stale, once there was time to write it", async () => {
  const passes = await rolling();
  await passes.goOn(2_000);
  const early = await inspect(passes);
  assert.deepEqual([early.functions[0]?.now?.guard, early.functions[0]?.stale], ["rolling", false]);
  await passes.goOn(5_000);
  const late = await inspect(passes);
  assert.deepEqual([late.functions[0]?.recorded?.guard, late.functions[0]?.stale], ["rolling", true]);
  const { out } = await sluice(passes, "why group");
  assert.match(out, /said rolling, for \d s, written \d s ago; that is stale$/m);
  assert.match(out, /^ {2}If that is not written within 5 minutes, no process of Sluice serves this group\.$/m);
  await passes.run();
  await passes.goOn(500);
  assert.equal((await inspect(passes)).functions[0]?.stale, false);
});

test("a verdict that still holds is not stale however old it is", async () => {
  const passes = await new Passes({ paused: ["a", "b"] }).prepare();
  await passes.run();
  await passes.goOn(3_600_000);
  const { functions } = await inspect(passes);
  assert.deepEqual([functions[0]?.recorded?.guard, functions[0]?.stale], ["paused", false]);
  const { out } = await sluice(passes, "why group");
  assert.match(out, /said paused, for 60 min, written 60 min ago\n.+\nNext: it looks again at the next event$/m);
  assert.match(out, /^group-a +2\/2 +2 +1 +- \(paused\)$/m);
});

test("a ledger that others have used for 10 s is not called new because the plugin sees it for the first time", async () => {
  const passes = await new Passes().prepare();
  const { functions } = await inspect(passes);
  assert.equal(functions[0]?.now?.guard, "rolling");
});

test("a group that no function has looked at is shown all the same", async () => {
  const { out } = await sluice(new Passes(), "why group");
  assert.match(out, /^There is no ledger sluice-group yet: no function has looked at this group\.$/m);
  assert.match(out, /^group-a +2\/2 +0 +1 +-$/m);
  assert.match(out, /^advance-zone-rollout has said nothing about this group yet\nNext: done\n/m);
});

test("a ledger that cannot be read is told of, with what to do, and the zones are shown", async () => {
  const passes = await rolling();
  passes.writeLedger({ "sluice.dev/reservations": "[" });
  const { code, out } = await sluice(passes, "why group");
  assert.equal(code, 0);
  assert.match(out, /^Nothing is permitted: Lease sluice-group cannot be read as a ledger: .+ delete it/m);
  assert.match(out, /^group-a +1\/2 /m);
  assert.match(out, /^Next: ledger-unreadable$/m);
  assert.match((await sluice(passes, "why")).out, /ledger-unreadable: Lease sluice-group/);
});

test("values that do not parse, refused deletions and budgets are told of", async () => {
  const passes = await new Passes().prepare();
  passes.interfere = ({ verb, resource }) => {
    if (verb !== "delete" || resource !== "pods") return;
    throw new ClusterError({ code: 403, reason: "Forbidden", message: "a webhook said no", verb, resource });
  };
  await passes.run();
  await passes.goOn(8_000);
  await passes.run();
  const [first] = passes.world.store.list("statefulsets").items;
  assert.ok(first !== undefined);
  passes.world.annotate({ namespace, name: first.metadata.name }, { "rollout-max-unavailable": "none" });
  addBudget(passes, "b", { maxUnavailablePercentage: 25 });
  const { out } = await sluice(passes, "why group");
  assert.match(out, /^WARNING group-a: annotation rollout-max-unavailable is "none"; write an integer above 0/m);
  assert.match(out, /^b +25% of the pods in one zone at a time$/m);
  assert.match(out, /^group-a-0 +\d+ \w+ +delete of group-a-0 was refused with 403: a webhook said no$/m);
  passes.world.store.delete(budgets, { namespace, name: "b" });
  addBudget(passes, "c", { maxUnavailable: 1, maxUnavailablePercentage: 1 });
  const invalid = await sluice(passes, "why group");
  assert.match(invalid.out, /^c +invalid, so no healthy pod may be evicted: spec\.maxUnavailable and .+ both/m);
  assert.match(invalid.out, /^WARNING evictions: the budget c, .+ is invalid: /m);
});

test("what no eviction will ever be allowed by is a warning with the numbers, and in the JSON (R25)", async () => {
  const passes = await new Passes().prepare();
  const free = await inspect(passes);
  assert.deepEqual(free.neverPossible, []);
  const spec = { selector: { matchLabels: { "rollout-group": "group" } }, minAvailable: 4 };
  passes.world.store.create("poddisruptionbudgets", namespace, { metadata: { name: "all" }, spec });
  const status = {
    observedGeneration: 9,
    disruptionsAllowed: 0,
    currentHealthy: 4,
    desiredHealthy: 4,
    expectedPods: 4,
  };
  passes.world.store.patch("poddisruptionbudgets", { namespace, name: "all" }, { status }, "status");
  addBudget(passes, "b", { maxUnavailable: 1 });
  const { out } = await sluice(passes, "why group");
  assert.match(out, /^WARNING evictions: never-possible: PodDisruptionBudget all wants 4 of its 4 pods healthy, so /m);
  passes.world.store.patch("zoneawarepoddisruptionbudgets", { namespace, name: "b" }, { spec: { maxUnavailable: 0 } });
  const [first, ...more] = (await inspect(passes)).neverPossible;
  assert.match(first ?? "", /^the budget b has maxUnavailable 0, so it never lets a pod be evicted/);
  assert.deepEqual(more, []);
});

test("a group that there is not is told apart from those that there are, with exit code 1", async () => {
  const passes = await rolling();
  const { code, out, said } = await sluice(passes, "why grupp");
  assert.deepEqual([code, out, said.length], [1, "", 1]);
  const where =
    'there is no group "grupp" in namespace db (no StatefulSet has rollout-group=grupp, and there is no ledger)';
  assert.equal(said[0], `${where}: there are "group"`);
  const elsewhere = await sluice(passes, "why group -n elsewhere");
  assert.match(
    elsewhere.said[0] ?? "",
    /^there is no group "group" in namespace elsewhere .+: and there is no other one$/,
  );
  const budget = await sluice(passes, "why budget:b");
  assert.match(budget.said[0] ?? "", /no StatefulSet without rollout-group is selected by a budget b/);
  const none = await sluice(passes, "why -n elsewhere");
  assert.deepEqual([none.code, none.out, none.said], [0, "", ["there is no group in namespace elsewhere"]]);
});

test("whatever the API server refuses is one line and exit code 1", async () => {
  const passes = await rolling();
  const answers: [number, string, string][] = [
    [403, "Forbidden", 'a right is missing: User "u" cannot list resource "pods"'],
    [401, "Unauthorized", "the API server does not accept the kubeconfig's credentials: User"],
    [0, "ConnectionFailed", "the API server does not answer: User"],
    [0, "NoCredentials", "there are no credentials for the API server: User"],
    [500, "InternalError", "the API server answered 500: User"],
  ];
  for (const [code, reason, expected] of answers) {
    passes.interfere = ({ verb, resource }) => {
      const message = 'User "u" cannot list resource "pods"\nmore';
      if (resource === "pods") throw new ClusterError({ code, reason, message, verb, resource });
    };
    const printed = await sluice(passes, "why group");
    assert.deepEqual([printed.code, printed.out, printed.said.length], [1, "", 1]);
    assert.ok(printed.said[0]?.startsWith(expected), printed.said[0]);
    assert.ok(!printed.said[0]?.includes("\n"));
  }
});

test("a wrong command line and a wrong kubeconfig are one line and exit code 2; help is exit code 0", async () => {
  const passes = new Passes();
  const mistaken = await sluice(passes, "why -o yaml");
  const sentence = '--output is "yaml"; write json, or leave it out; see kubectl sluice --help';
  assert.deepEqual(mistaken, { code: 2, out: "", said: [sentence] });
  assert.match((await sluice(passes, "--help")).out, /kubectl sluice why/);
  assert.deepEqual(passes.words, []);
  const said: string[] = [];
  const code = await run(["why"], {
    connect: () => Promise.reject(new Error("no kubeconfig: set KUBECONFIG\nmore")),
    out: () => assert.fail("there is nothing to print"),
    err: (line) => void said.push(line),
    emphasize: (text) => text,
  });
  assert.deepEqual([code, said], [2, ["the cluster cannot be found: no kubeconfig: set KUBECONFIG"]]);
});

test("a mistake in the program is thrown, not told of as if the cluster were to blame", async () => {
  const passes = await rolling();
  const broken = { ...passes.cluster, get: () => Promise.reject(new TypeError("a bug")) } as Cluster;
  await assert.rejects(sluice(passes, "why group", broken), TypeError);
});

test("evictions that began to wait for their turn are told of, by zone and with why, and without the right to read that nothing is", async () => {
  const passes = await governedGroup({ maxUnavailable: 1 });
  const cache = await passes.watch();
  const replica = new Replica(passes, () => ({ cache, settings: {} }));
  const asked = ["group-a-0", "group-a-1", "group-a-2"].map((pod) => replica.review(pod));
  await passes.goOn(3_000);
  const why = await sluice(passes, "why group");
  assert.match(why.out, /^EVICTION WAITS +SINCE +WHY$/m);
  assert.match(why.out, /^group-a +\d s +zone-budget: 1 pod not ready in group-a: 1 may be down, so group-a-1 stays/m);
  const { waiting } = await inspect(passes);
  assert.deepEqual(
    waiting.map(({ zone }) => zone),
    ["group-a"],
  );
  assert.deepEqual(Object.keys(waiting[0] ?? {}).sort(), ["at", "sentence", "zone"]);
  const cluster: Cluster = wrapCluster(passes.cluster, {
    get: async (resource, ...rest) => {
      if (resource === "events") throw refused(403);
      return passes.cluster.get(resource, ...rest);
    },
  });
  assert.doesNotMatch((await sluice(passes, "why group", cluster)).out, /EVICTION WAITS/);
  await replica.guards(...asked);
  await passes.goOn(180_000);
  assert.doesNotMatch((await sluice(passes, "why group")).out, /EVICTION WAITS/);
});
