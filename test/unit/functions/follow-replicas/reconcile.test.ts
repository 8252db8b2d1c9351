/** Reconciles in a fake cluster: what follows, in which order, under which claims, and what blocks it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { replicaTemplates } from "../../../fake-cluster/replica-template.ts";
import { namespace, refused } from "../../shared/reconcile/harness.ts";
import { Following, mirrors } from "./following.ts";

const template = { "rollout-mirror-replicas-from-resource-name": "template" };

function deploy(on: Following, replicas: number): void {
  const labels = { app: "template" };
  const pods = { metadata: { labels }, spec: { containers: [{ name: "app", image: "app:1" }] } };
  const spec = { replicas, selector: { matchLabels: labels }, template: pods };
  on.harness.world.store.create("deployments", namespace, { metadata: { name: "template" }, spec } as never);
}

test("one reconcile makes all followers larger that must grow, without a claim", async () => {
  const on = await Following.of();
  on.scale("a", 6);
  await on.run();
  assert.deepEqual(on.sizes, [6, 6, 6]);
  assert.deepEqual(on.claims, []);
});

test("one reconcile makes followers smaller one zone after the other, each under a claim, while the other zones are whole", async () => {
  const on = await Following.of();
  on.scale("a", 2);
  await on.harness.goOn(2_000);
  await on.run();
  assert.deepEqual([on.sizes, on.claims], [[2, 2, 4], ["confirmed group-b"]]);
  assert.ok(on.harness.verdicts.some(({ guard }) => guard === "resizing"));
  await on.run();
  assert.deepEqual([on.sizes, on.harness.guard], [[2, 2, 4], "zone-scaling-down"]);
  await on.goOn(30_000);
  assert.deepEqual([on.sizes, on.claims, on.harness.guard], [[2, 2, 2], [], "done"]);
});

test("zones-down: no follower becomes smaller while a pod of another zone is away", async () => {
  const on = await Following.of();
  on.scale("a", 2);
  await on.harness.goOn(2_000);
  on.harness.world.kubelet.breakPod({ namespace, name: "group-a-0" }, "Error");
  await on.run();
  assert.deepEqual([on.sizes, on.harness.guard], [[2, 4, 4], "zones-down"]);
});

test("Sluice writes a size only to the StatefulSet that it read, and reads it again if it changed meanwhile", async () => {
  const on = await Following.of();
  on.scale("a", 6);
  let isChanged = false;
  on.harness.interfere = ({ verb, resource }) => {
    if (verb !== "patch" || resource !== "statefulsets" || isChanged) return;
    isChanged = true;
    on.annotate("b", { "rollout-force-replicas": "5", "rollout-downscale-leader": "group-a" });
  };
  await on.run();
  assert.equal(on.sizes[1], 4);
  on.harness.interfere = () => {};
  await on.run();
  assert.deepEqual(on.sizes, [6, 5, 6]);
});

test("if the leader grows again while its follower is claimed, the follower keeps its size, and the claim ends at once", async () => {
  const on = await Following.of({ c: {} });
  on.scale("a", 2);
  await on.harness.goOn(2_000);
  on.harness.interfere = ({ verb, resource, given }) => {
    if (verb === "patch" && resource === "leases" && JSON.stringify(given).includes("scale-down")) on.scale("a", 4);
  };
  await on.run();
  assert.deepEqual([on.sizes, on.claims], [[4, 4, 4], ["confirmed group-b"]]);
  on.harness.interfere = () => {};
  await on.harness.goOn(2_000);
  await on.run();
  assert.deepEqual([on.sizes, on.claims], [[4, 4, 4], []]);
});

test("a fault of one StatefulSet blocks no other", async () => {
  const on = await Following.of({ b: { "rollout-downscale-leader": "absent" } });
  on.scale("a", 6);
  await on.run();
  assert.deepEqual(on.sizes, [6, 4, 6]);
  await on.run();
  assert.equal(on.harness.guard, "leader-missing");
});

test("size-refused: Sluice quotes the API server's message, ends the claim at once, and tries again after half a minute", async () => {
  const on = await Following.of({ c: {} });
  on.scale("a", 2);
  await on.harness.goOn(2_000);
  on.harness.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "statefulsets") throw refused(400, "not on a Sunday");
  };
  await on.run();
  await on.run();
  assert.deepEqual([on.sizes, on.claims], [[2, 4, 4], []]);
  assert.equal(on.harness.guard, "size-refused");
  assert.match(on.harness.verdicts.at(-1)?.message ?? "", /not on a Sunday/);
  on.harness.interfere = () => {};
  await on.goOn(60_000);
  assert.deepEqual(on.sizes, [2, 2, 4]);
});

test("the claim of a killed process ends after 90 s, and another process then does the work that it was for (R20)", async () => {
  const on = await Following.of();
  on.scale("a", 2);
  await on.harness.goOn(2_000);
  on.harness.interfere = ({ verb, resource }) => {
    // The write of the ledger arrives, and nothing after it.
    if (verb === "patch" && resource === "statefulsets") throw refused(0, "killed");
  };
  await on.run();
  assert.deepEqual([on.sizes, on.claims], [[2, 4, 4], ["confirmed group-b"]]);
  on.harness.restart();
  on.harness.interfere = () => {};
  await on.goOn(60_000);
  assert.deepEqual([on.sizes, on.harness.guard], [[2, 4, 4], "zone-scaling-down"]);
  await on.goOn(90_000);
  assert.deepEqual([on.sizes, on.claims], [[2, 2, 2], []]);
});

test("3.2 and 3.3: zones mirror an object, and its status says the size unless the annotation says no", async () => {
  const on = await Following.of({ a: mirrors, b: mirrors, c: { ...mirrors } });
  await on.run();
  assert.equal(on.harness.guard, "mirror-missing");
  on.mirror(6);
  await on.harness.goOn(6_000);
  await on.goOn(12_000);
  assert.deepEqual([on.sizes, on.mirroredStatus], [[6, 6, 6], 6]);
});

test("3.3: if the annotation says no, the function writes nothing back; a refused write is reported, and delays nothing", async () => {
  const quiet = { ...mirrors, "rollout-mirror-replicas-from-resource-write-back": "no" };
  const on = await Following.of({ a: quiet, b: quiet, c: quiet });
  on.mirror(6);
  on.harness.calls.length = 0;
  await on.goOn(12_000);
  assert.deepEqual(on.sizes, [6, 6, 6]);
  assert.deepEqual(
    on.harness.calls.filter(({ verb, resource }) => verb === "patch" && resource === replicaTemplates),
    [],
  );
  on.annotate("a", { ...mirrors, "rollout-mirror-replicas-from-resource-write-back": "true" });
  on.harness.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === replicaTemplates) throw refused(403, "no status for you");
  };
  await on.goOn(12_000);
  assert.equal(on.harness.problems.length, 1);
  assert.match(on.harness.problems[0] ?? "", /the status of ReplicaTemplate template .* no status for you/);
  assert.equal(on.harness.guard, "done");
});

for (const [kind, resource, name] of [
  ["StatefulSet", "statefulsets", "group-c"],
  ["Deployment", "deployments", "template"],
] as const)
  test(`the status of a mirrored ${kind} is left to its controller, also where a zone is forced to another size`, async () => {
    const leader = {
      "rollout-mirror-replicas-from-resource-name": name,
      "rollout-mirror-replicas-from-resource-kind": kind,
      "rollout-force-replicas": "6",
    };
    const on = await Following.of({ a: leader, b: {}, c: {} });
    deploy(on, 4);
    await on.goOn(12_000);
    assert.equal(on.sizes[0], 6);
    await on.goOn(12_000);
    const calls = on.harness.calls.filter((call) => call.resource === resource);
    assert.ok(calls.some(({ verb }) => verb === "get"));
    assert.deepEqual(
      calls.filter(({ verb }) => verb === "patch"),
      [],
    );
  });

test("a guard names the object that Sluice cannot mirror, and the size stays", async () => {
  for (const [annotations, guard] of [
    [{ ...mirrors, "rollout-mirror-replicas-from-resource-kind": "Nothing" }, "mirror-missing"],
    [{ ...mirrors, "rollout-mirror-replicas-from-resource-api-version": "a/b/c" }, "mirror-malformed"],
    [{ ...template, "rollout-mirror-replicas-from-resource-kind": "ConfigMap" }, "mirror-without-scale"],
  ] as const) {
    const on = await Following.of({ a: annotations, b: {}, c: {} });
    await on.run();
    assert.deepEqual([on.harness.guard, on.sizes], [guard, [4, 4, 4]]);
  }
  const on = await Following.of({ a: mirrors, b: {}, c: {} });
  on.harness.interfere = ({ verb, resource }) => {
    if (verb === "get" && resource === replicaTemplates)
      throw refused(403, 'User "sluice" cannot get resource "replicatemplates"');
  };
  await on.run();
  assert.equal(on.harness.guard, "mirror-forbidden");
});

test("a reference to a StatefulSet or Deployment needs no API version, as Loki's chart writes it; for any other kind the guard says what to write", async () => {
  const kind = "rollout-mirror-replicas-from-resource-kind";
  const on = await Following.of({ a: { ...template, [kind]: "Deployment" }, b: {}, c: {} });
  deploy(on, 6);
  await on.run();
  assert.equal(on.sizes[0], 6);
  const leader = { "rollout-mirror-replicas-from-resource-name": "group-c", [kind]: "StatefulSet" };
  const ofSet = await Following.of({ a: leader, b: {}, c: {} });
  ofSet.scale("c", 5);
  await ofSet.run();
  assert.deepEqual(ofSet.sizes, [5, 4, 5]);
  const other = await Following.of({ a: { ...template, [kind]: "ReplicaTemplate" }, b: {}, c: {} });
  await other.run();
  assert.deepEqual([other.harness.guard, other.sizes], ["mirror-missing", [4, 4, 4]]);
  assert.match(
    other.harness.verdicts.at(-1)?.message ?? "",
    /, or write the API version of that kind into grafana\.com\/rollout-mirror-replicas-from-resource-api-version, such as /,
  );
});

test("follow-replicas makes a StatefulSet with a delay larger, and never smaller", async () => {
  const delay = {
    "rollout-downscale-leader": "group-a",
    "rollout-delayed-downscale": "1h",
    "rollout-prepare-delayed-downscale-url": "http://pod/x",
  };
  const on = await Following.of({ b: delay });
  on.scale("a", 2);
  await on.harness.goOn(2_000);
  await on.goOn(20_000);
  assert.deepEqual(on.sizes, [2, 4, 2]);
  on.scale("a", 7);
  await on.run();
  assert.deepEqual(on.sizes, [7, 7, 7]);
});

test("if a webhook tells a StatefulSet's pods to prepare, Sluice lowers it without a claim, because the webhook makes the claim", async () => {
  const on = await Following.of();
  on.label("b", { "prepare-downscale": "true" });
  on.scale("a", 2);
  await on.harness.goOn(2_000);
  await on.run();
  assert.deepEqual([on.sizes, on.claims], [[2, 2, 4], []]);
});

test("shadow: Sluice writes nothing, and reports what it would write", async () => {
  const on = await Following.of();
  await on.harness.goOn(60_000);
  on.harness.restart({ mode: "shadow" });
  on.scale("a", 6);
  on.harness.calls.length = 0;
  await on.run();
  assert.deepEqual(on.sizes, [6, 4, 4]);
  assert.deepEqual(
    on.harness.calls.filter(({ verb }) => ["patch", "create", "delete"].includes(verb)),
    [],
  );
  assert.deepEqual(on.harness.verdicts.at(-1)?.wouldTake, [
    { action: "raise", object: "group-b" },
    { action: "raise", object: "group-c" },
  ]);
});

test("a group without a leader costs no request, except one read of its ledger in a sweep", async () => {
  const on = await Following.of({ a: {}, b: {}, c: {} });
  await on.run();
  on.harness.forget();
  await on.run();
  assert.deepEqual(on.harness.calls, []);
  await on.run(true);
  assert.deepEqual(
    on.harness.calls.filter(({ resource }) => resource === "leases").map(({ verb }) => verb),
    ["get"],
  );
});

test("malformed values are reported on the StatefulSet", async () => {
  const on = await Following.of({ b: { "rollout-downscale-leader": "group-a", "rollout-force-replicas": "many" } });
  await on.run();
  assert.ok(
    on.harness.malformed.some((one) => one.includes("rollout-force-replicas")),
    on.harness.malformed.join(),
  );
});

test("a ledger that is too new to permit a removal does not block growth, because growth removes no pod (R4)", async () => {
  const on = await Following.of({ c: {} });
  on.harness.restart();
  on.scale("a", 6);
  await on.run();
  assert.deepEqual(on.sizes, [6, 6, 4]);
  on.harness.restart();
  on.scale("a", 2);
  await on.harness.goOn(2_000);
  await on.run();
  assert.deepEqual([on.sizes, on.harness.guard], [[2, 6, 4], "ledger-new"]);
});
