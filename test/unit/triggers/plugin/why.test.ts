import assert from "node:assert/strict";
import { test } from "node:test";
import { type Cluster, ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { run } from "../../../../triggers/plugin/command.ts";
import type { GroupInspection } from "../../../../triggers/plugin/inspection.ts";
import { governedGroup, Replica } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { Harness, namespace, refused } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

const budgets = "zoneawarepoddisruptionbudgets";

async function inspect(harness: Harness, line = "why group -o json"): Promise<GroupInspection> {
  const { code, out, err: reported } = await sluice(harness, line);
  assert.deepEqual([code, reported], [0, []]);
  return JSON.parse(out);
}

/** A group of two zones of two pods, in which the first pod is being replaced by one of another revision. */
async function rolling(): Promise<Harness> {
  const harness = await new Harness().prepare();
  await harness.run();
  await harness.goOn(600);
  harness.forget();
  return harness;
}

function addBudget(harness: Harness, name: string, spec: object): void {
  const matchLabels = { "rollout-group": "group" };
  const body = {
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name },
    spec: { selector: { matchLabels }, ...spec },
  };
  harness.world.store.create(budgets, namespace, body);
}

test("in the middle of a rollout why reports everything that delays it, and writes nothing", async () => {
  const harness = await rolling();
  const { code, out } = await sluice(harness, "why group");
  assert.equal(code, 0);
  assert.deepEqual(writes(harness), []);
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

test("why names a running pod of rollout-operator as the reason for which Sluice stands by", async () => {
  const harness = await rolling();
  assert.equal((await inspect(harness)).otherOperator, null);
  const metadata = { name: "operator-1", labels: { name: "rollout-operator" } };
  const spec = { containers: [{ name: "operator", image: "rollout-operator:1" }] };
  harness.world.store.create("pods", namespace, { metadata, spec });
  assert.match((await inspect(harness)).otherOperator ?? "", /^rollout-operator runs as pod db\/operator-1,/);
  const { out } = await sluice(harness, "why group");
  assert.match(out, /^WARNING other-operator: rollout-operator runs as pod db\/operator-1, .*OTHER_OPERATOR=ignore/m);
});

test("why reports a pod whose eviction another webhook has refused, with the reason, and when Sluice allows the next one", async () => {
  const harness = await new Harness().prepare();
  const { uid } = harness.world.store.get("pods", { namespace, name: "group-b-0" }).metadata;
  const entry = ["group-b-0", "another webhook refuses it", harness.cluster.serverTimeMs(), "evaluate-eviction"];
  harness.writeLedger({ "sluice.dev/refusals": JSON.stringify({ [`${uid}/evaluate-eviction`]: entry }) });
  assert.match((await sluice(harness, "why group")).out, /^group-b-0 +\d+ \w+ +another webhook refuses it$/m);
  assert.deepEqual(Object.keys((await inspect(harness)).refusals[0] ?? {}).sort(), ["pod", "sentence", "triedAgainAt"]);
});

test("why counts a reserved pod as ready while it exists, and marks it as reserved", async () => {
  const harness = await new Harness().prepare();
  harness.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === "pods") throw refused(503);
  };
  await harness.run();
  assert.match((await sluice(harness, "why group")).out, /^group-a +2\/2 +2 +1 +reserved: 0$/m);
});

test("why aligns its columns", async () => {
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

test("without a group, why prints one line for each group: by label, by budget, and with nothing but a ledger", async () => {
  const harness = await rolling();
  harness.world.addGroup({ namespace, group: "other", zones: ["a"], replicas: 1 });
  addBudget(harness, "lonely", { selector: { matchLabels: { app: "lonely" } } });
  addBudget(harness, "unused", { selector: { matchLabels: { app: "nothing" } } });
  const template = harness.world.store.get("statefulsets", { namespace, name: "other-a" });
  harness.world.store.create("statefulsets", namespace, {
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
  harness.world.store.create("leases", namespace, { metadata });
  const { code, out } = await sluice(harness, "why");
  assert.equal(code, 0);
  const rows = out.trimEnd().split("\n");
  assert.deepEqual(
    rows.map((row) => row.split(/ {2,}/)[0]),
    ["GROUP", "budget:lonely", "gone", "group", "other"],
  );
  assert.match(rows[3] ?? "", /^group +2 +3\/4 +3 +1 +- +budget: group-a: 1 of 2 down/);
  const listed = JSON.parse((await sluice(harness, "why -o json")).out);
  assert.deepEqual(
    listed.groups.map(({ group }: GroupInspection) => group),
    ["budget:lonely", "gone", "group", "other"],
  );
  const gone = await sluice(harness, "why gone");
  assert.match(gone.out, /^gone in namespace db: no StatefulSet is in it any more$/m);
  assert.match((await sluice(harness, "why budget:lonely")).out, /^lonely +\d\/1 +/m);
  // Nothing is rolled there, so no rollout reports anything about it.
  assert.deepEqual((await inspect(harness, "why budget:lonely -o json")).functions, []);
});

test("the JSON has exactly the documented fields", async () => {
  const harness = await rolling();
  addBudget(harness, "b", { maxUnavailable: 1 });
  const inspection = await inspect(harness);
  const fields = (value: object | null | undefined) => Object.keys(value ?? {}).sort();
  const { zones, reservations, functions } = inspection;
  assert.deepEqual(
    fields(inspection),
    "at budgets claims functions group ledger namespace neverPossible otherOperator refusals reservations ungovernable waiting zones".split(
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
  assert.deepEqual(fields(functions[0]?.recorded), ["at", "ends", "guard", "sentence", "since", "todo", "zone"]);
  assert.deepEqual(fields(functions[0]?.now), ["ends", "guard", "recheckSeconds", "sentence", "todo", "zone"]);
  const { at = "", abandonedFrom = "" } = reservations[0] ?? {};
  assert.equal(Date.parse(abandonedFrom) - Date.parse(at), 150_000);
  const budget = { maxUnavailable: 1, maxUnavailablePercentage: null, podNamePartitionRegex: null };
  assert.deepEqual(inspection.budgets, [{ name: "b", ...budget, crossZoneEvictionDelaySeconds: 0, invalid: null }]);
});

test("why lists the first thousand of 2^31 missing pods, and the number of the others", async () => {
  const harness = await rolling();
  harness.world.statefulSetController.stop();
  harness.world.scale({ namespace, name: "group-b" }, 2_147_483_647);
  const { zones } = await inspect(harness);
  const [, zone] = zones;
  assert.deepEqual([zone?.down.length, zone?.down[0]], [1_000, { pod: "group-b-2", ordinal: 2, why: "missing" }]);
  assert.equal(zone?.missingBesides, 2_147_482_645);
  const { out } = await sluice(harness, "why group");
  assert.match(out, /^group-b +2\/2147483647 +0 +1 +missing: 2-1001; 2147482645 more missing$/m);
});

test("a recorded verdict is stale if its function now decides otherwise and has had time to write that", async () => {
  const harness = await rolling();
  await harness.goOn(2_000);
  const early = await inspect(harness);
  assert.deepEqual([early.functions[0]?.now?.guard, early.functions[0]?.stale], ["rolling", false]);
  await harness.goOn(5_000);
  const late = await inspect(harness);
  assert.deepEqual([late.functions[0]?.recorded?.guard, late.functions[0]?.stale], ["rolling", true]);
  const { out } = await sluice(harness, "why group");
  assert.match(out, /said rolling, for \d s, written \d s ago; that is stale$/m);
  assert.match(out, /^ {2}If that is not written within 5 minutes, no process of Sluice serves this group\.$/m);
  await harness.run();
  await harness.goOn(500);
  assert.equal((await inspect(harness)).functions[0]?.stale, false);
});

test("a recorded verdict that still holds is not stale, however old it is", async () => {
  const harness = await new Harness({ paused: ["a", "b"] }).prepare();
  await harness.run();
  await harness.goOn(3_600_000);
  const { functions } = await inspect(harness);
  assert.deepEqual([functions[0]?.recorded?.guard, functions[0]?.stale], ["paused", false]);
  const { out } = await sluice(harness, "why group");
  assert.match(out, /said paused, for 60 min, written 60 min ago\n.+\n {2}To do: .+\nNext: it reconciles again at /m);
  assert.match(out, /^group-a +2\/2 +2 +1 +- \(paused\)$/m);
});

test("a ledger that has been in use for 10 s is not called new although the plugin reads it for the first time", async () => {
  const harness = await new Harness().prepare();
  const { functions } = await inspect(harness);
  assert.equal(functions[0]?.now?.guard, "rolling");
});

test("why shows a group that no function has reconciled yet", async () => {
  const { out } = await sluice(new Harness(), "why group");
  assert.match(out, /^There is no ledger sluice-group yet: no function has looked at this group\.$/m);
  assert.match(out, /^group-a +2\/2 +0 +1 +-$/m);
  assert.match(out, /^advance-zone-rollout has said nothing about this group yet\nNext: done\n/m);
});

test("why reports an unreadable ledger with what to do, and still shows the zones", async () => {
  const harness = await rolling();
  harness.writeLedger({ "sluice.dev/reservations": "[" });
  const { code, out } = await sluice(harness, "why group");
  assert.equal(code, 0);
  assert.match(out, /^Nothing is permitted: Lease sluice-group cannot be read as a ledger: .+ delete it/m);
  assert.match(out, /^group-a +1\/2 /m);
  assert.match(out, /^Next: ledger-unreadable$/m);
  assert.match((await sluice(harness, "why")).out, /ledger-unreadable: Lease sluice-group/);
});

test("why reports malformed values, refused deletions and budgets", async () => {
  const harness = await new Harness().prepare();
  harness.interfere = ({ verb, resource }) => {
    if (verb !== "delete" || resource !== "pods") return;
    throw new ClusterError({ code: 403, reason: "Forbidden", message: "a webhook said no", verb, resource });
  };
  await harness.run();
  await harness.goOn(8_000);
  await harness.run();
  const [first] = harness.world.store.list("statefulsets").items;
  assert.ok(first !== undefined);
  harness.world.annotate({ namespace, name: first.metadata.name }, { "rollout-max-unavailable": "none" });
  addBudget(harness, "b", { maxUnavailablePercentage: 25 });
  const { out } = await sluice(harness, "why group");
  assert.match(out, /^WARNING group-a: annotation rollout-max-unavailable is "none"; write an integer above 0/m);
  assert.match(out, /^b +25% of the pods in one zone at a time$/m);
  assert.match(out, /^group-a-0 +\d+ \w+ +delete of group-a-0 was refused with 403: a webhook said no$/m);
  harness.world.store.delete(budgets, { namespace, name: "b" });
  addBudget(harness, "c", { maxUnavailable: 1, maxUnavailablePercentage: 1 });
  const invalid = await sluice(harness, "why group");
  assert.match(invalid.out, /^c +invalid, so no healthy pod may be evicted: spec\.maxUnavailable and .+ both/m);
  assert.match(invalid.out, /^WARNING evictions: the budget c, .+ is invalid: /m);
});

test("a budget that can never allow an eviction is a warning with the numbers, also in the JSON (R25)", async () => {
  const harness = await new Harness().prepare();
  const free = await inspect(harness);
  assert.deepEqual(free.neverPossible, []);
  const spec = { selector: { matchLabels: { "rollout-group": "group" } }, minAvailable: 4 };
  harness.world.store.create("poddisruptionbudgets", namespace, { metadata: { name: "all" }, spec });
  const status = {
    observedGeneration: 9,
    disruptionsAllowed: 0,
    currentHealthy: 4,
    desiredHealthy: 4,
    expectedPods: 4,
  };
  harness.world.store.patch("poddisruptionbudgets", { namespace, name: "all" }, { status }, "status");
  addBudget(harness, "b", { maxUnavailable: 1 });
  const { out } = await sluice(harness, "why group");
  assert.match(out, /^WARNING evictions: never-possible: PodDisruptionBudget all wants 4 of its 4 pods healthy, so /m);
  harness.world.store.patch("zoneawarepoddisruptionbudgets", { namespace, name: "b" }, { spec: { maxUnavailable: 0 } });
  const [first, ...more] = (await inspect(harness)).neverPossible;
  assert.match(first ?? "", /^the budget b has maxUnavailable 0, so it never lets a pod be evicted/);
  assert.deepEqual(more, []);
});

test("the message about a missing group names the existing groups, and the exit code is 1", async () => {
  const harness = await rolling();
  const { code, out, err: reported } = await sluice(harness, "why grupp");
  assert.deepEqual([code, out, reported.length], [1, "", 1]);
  const where =
    'there is no group "grupp" in namespace db (no StatefulSet has rollout-group=grupp, and there is no ledger)';
  assert.equal(reported[0], `${where}: there are "group"`);
  const elsewhere = await sluice(harness, "why group -n elsewhere");
  assert.match(
    elsewhere.err[0] ?? "",
    /^there is no group "group" in namespace elsewhere .+: and there is no other one$/,
  );
  const budget = await sluice(harness, "why budget:b");
  assert.match(budget.err[0] ?? "", /no StatefulSet without rollout-group is selected by a budget b/);
  const none = await sluice(harness, "why -n elsewhere");
  assert.deepEqual([none.code, none.out, none.err], [0, "", ["there is no group in namespace elsewhere"]]);
});

test("any refusal by the API server is printed as one line, with exit code 1", async () => {
  const harness = await rolling();
  const answers: [number, string, string][] = [
    [403, "Forbidden", 'a right is missing: User "u" cannot list resource "pods"'],
    [401, "Unauthorized", "the API server does not accept the kubeconfig's credentials: User"],
    [0, "ConnectionFailed", "the API server does not answer: User"],
    [0, "NoCredentials", "there are no credentials for the API server: User"],
    [500, "InternalError", "the API server answered 500: User"],
  ];
  for (const [code, reason, expected] of answers) {
    harness.interfere = ({ verb, resource }) => {
      const message = 'User "u" cannot list resource "pods"\nmore';
      if (resource === "pods") throw new ClusterError({ code, reason, message, verb, resource });
    };
    const printed = await sluice(harness, "why group");
    assert.deepEqual([printed.code, printed.out, printed.err.length], [1, "", 1]);
    assert.ok(printed.err[0]?.startsWith(expected), printed.err[0]);
    assert.ok(!printed.err[0]?.includes("\n"));
  }
});

test("a wrong command line or kubeconfig is reported in one line with exit code 2; help has exit code 0", async () => {
  const harness = new Harness();
  const mistaken = await sluice(harness, "why -o yaml");
  const mistake = '--output is "yaml"; write json, or leave it out; see kubectl sluice --help';
  assert.deepEqual(mistaken, { code: 2, out: "", err: [mistake] });
  assert.match((await sluice(harness, "--help")).out, /kubectl sluice why/);
  assert.deepEqual(harness.requests, []);
  const reported: string[] = [];
  const code = await run(["why"], {
    connect: () => Promise.reject(new Error("no kubeconfig: set KUBECONFIG\nmore")),
    out: () => assert.fail("nothing is printed to the standard output"),
    err: (line) => void reported.push(line),
    emphasize: (text) => text,
  });
  assert.deepEqual([code, reported], [2, ["the cluster cannot be found: no kubeconfig: set KUBECONFIG"]]);
});

test("a bug of the program is thrown, and not reported as a failure of the cluster", async () => {
  const harness = await rolling();
  const broken = { ...harness.cluster, get: () => Promise.reject(new TypeError("a bug")) } as Cluster;
  await assert.rejects(sluice(harness, "why group", broken), TypeError);
});

test("why reports since when and why evictions wait, by zone, and leaves that out without the right to read it", async () => {
  const harness = await governedGroup({ maxUnavailable: 1 });
  const cache = await harness.watch();
  const replica = new Replica(harness, () => ({ cache, settings: {} }));
  const asked = ["group-a-0", "group-a-1", "group-a-2"].map((pod) => replica.review(pod));
  await harness.goOn(3_000);
  const why = await sluice(harness, "why group");
  assert.match(why.out, /^EVICTION WAITS +SINCE +WHY$/m);
  assert.match(why.out, /^group-a +\d s +zone-budget: 1 pod not ready in group-a: 1 may be down, so group-a-1 stays/m);
  const { waiting } = await inspect(harness);
  assert.deepEqual(
    waiting.map(({ zone }) => zone),
    ["group-a"],
  );
  assert.deepEqual(Object.keys(waiting[0] ?? {}).sort(), ["at", "sentence", "zone"]);
  const cluster: Cluster = wrapCluster(harness.cluster, {
    get: async (resource, ...rest) => {
      if (resource === "events") throw refused(403);
      return harness.cluster.get(resource, ...rest);
    },
  });
  assert.doesNotMatch((await sluice(harness, "why group", cluster)).out, /EVICTION WAITS/);
  await replica.guards(...asked);
  await harness.goOn(180_000);
  assert.doesNotMatch((await sluice(harness, "why group")).out, /EVICTION WAITS/);
});
