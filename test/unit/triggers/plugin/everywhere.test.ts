/** What kubectl sluice why and suspended show with -A. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Harness, refused } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

/** The group `group` in two namespaces, and one that only the second has. */
function twoNamespaces(): Harness {
  const harness = new Harness();
  for (const group of ["group", "store"])
    harness.world.addGroup({ namespace: "search", group, zones: ["a"], replicas: 1, volumes: ["data"] });
  harness.world.settle();
  return harness;
}

test("why -A has a line for each group of all namespaces, with its namespace, and writes nothing", async () => {
  const harness = twoNamespaces();
  const { code, out, err } = await sluice(harness, "why -A");
  assert.deepEqual([code, err, writes(harness)], [0, [], []]);
  const words = out.split("\n").map((line) => line.split(/ +/).slice(0, 4).join(" "));
  assert.deepEqual(words, [
    "NAMESPACE GROUP ZONES READY",
    "db group 2 4/4",
    "search group 1 1/1",
    "search store 1 1/1",
    "",
  ]);
  const { namespace, groups } = JSON.parse((await sluice(harness, "why -A -o json")).out);
  assert.equal(namespace, null);
  assert.deepEqual(
    groups.map((group: { namespace: string }) => group.namespace),
    ["db", "search", "search"],
  );
});

test("why GROUP -A shows that group of each namespace as a whole, and a name that no namespace has ends with 1", async () => {
  const harness = twoNamespaces();
  const { code, out } = await sluice(harness, "why group -A");
  assert.equal(code, 0);
  assert.deepEqual(out.match(/^group in namespace \w+: \d of \d pods ready/gm), [
    "group in namespace db: 4 of 4 pods ready",
    "group in namespace search: 1 of 1 pods ready",
  ]);
  const { code: missing, err } = await sluice(harness, "why other -A");
  assert.deepEqual([missing, err], [1, ['there is no group "other" in any namespace']]);
});

test("without a right to list in all namespaces why -A names it", async () => {
  const harness = twoNamespaces();
  harness.interfere = ({ verb, given: [, query] }) => {
    if (verb === "list" && (query as { namespace?: string }).namespace === undefined)
      throw refused(403, 'User "u" cannot list resource "statefulsets"');
  };
  const { code, out, err } = await sluice(harness, "why -A");
  assert.deepEqual([code, out, err], [1, "", ['a right is missing: User "u" cannot list resource "statefulsets"']]);
});

test("suspended -A shows the volume claims of all namespaces, with their namespaces, and sums them up", async () => {
  const harness = twoNamespaces();
  const { code, out, err } = await sluice(harness, "suspended -A");
  assert.deepEqual([code, out, err], [0, "", ["no volume claim is suspended in any namespace"]]);
  for (const namespace of ["db", "search"]) {
    const annotations = { "sluice.dev/suspend": "true", "sluice.dev/suspend-state": "Suspended" };
    const metadata = { name: "data-group-a-7", annotations };
    harness.world.store.create("persistentvolumeclaims", namespace, { metadata, spec: {} } as never);
    const status = { capacity: { storage: "10Gi" } };
    const key = { namespace, name: metadata.name };
    harness.world.store.patch("persistentvolumeclaims", key, { status } as never, "status");
  }
  const all = await sluice(harness, "suspended -A");
  assert.match(all.out, /^NAMESPACE +CLAIM +ZONE /);
  assert.match(all.out, /^db +data-group-a-7 +.+\nsearch +data-group-a-7 /m);
  assert.match(all.out, /^2 volume claims, 20Gi$/m);
  const { namespace, claims } = JSON.parse((await sluice(harness, "suspended -A -o json")).out);
  assert.deepEqual(
    [namespace, claims.map((claim: { namespace: string }) => claim.namespace)],
    [null, ["db", "search"]],
  );
});
