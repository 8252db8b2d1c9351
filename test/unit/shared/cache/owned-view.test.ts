/** The view of a group whose pods no StatefulSet controls: what it lists, and through which revisions it has seen. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readOwnedView } from "../../../../functions/shared/cache/listing.ts";
import { groupOfOwner } from "../../../../functions/shared/workloads/group-key.ts";
import { namespace, podObject } from "../../functions/advance-zone-rollout/given.ts";

const owner = { kind: "Database", apiGroup: "example.com", name: "orders" };
const key = { namespace, group: groupOfOwner(owner) };

/** A volume claim of one pod in a zone. */
function pvc(name: string, zone: string, resourceVersion: string): object {
  const annotations = { "sluice.dev/owner": "Database.example.com/orders", "sluice.dev/zone": zone };
  return { metadata: { name, namespace, uid: `uid-of-${name}`, resourceVersion, annotations } };
}

function read(pvcs: readonly object[], settledThrough?: number) {
  const references = [{ apiVersion: "example.com/v1", kind: "Database", name: "orders", uid: "u", controller: true }];
  const pod = podObject("orders-1", { metadata: { resourceVersion: "7", ownerReferences: references } as never });
  const lists: Readonly<Record<string, object>> = {
    statefulsets: { items: [], resourceVersion: "9" },
    persistentvolumeclaims: { items: pvcs, resourceVersion: "10" },
    pods: { items: [pod], resourceVersion: "12" },
  };
  const cluster = { monotonicMs: () => 5, list: async (resource: string) => lists[resource] };
  return readOwnedView(cluster as never, key, { settledThrough });
}

test("under a ledger without a decision the view has seen what its LIST has, and later what its newest pod is", async () => {
  assert.equal((await read([])).seenThrough, 12);
  assert.equal((await read([], 3)).seenThrough, 7);
});

test("its members are known through the newest volume claim, and through nothing where there is none", async () => {
  const claims = [pvc("data-1", "a", "8"), pvc("data-2", "b", "6")];
  const view = await read(claims, 3);
  assert.equal(view.membersThrough, 8);
  assert.equal((await read([], 3)).membersThrough, 0);
  assert.deepEqual(view.consistentAt, { pods: 12, statefulSets: 10 });
  assert.equal(view.statefulSetsReadMs, 5);
});

test("a workload that the view does not know has no pods", async () => {
  const view = await read([pvc("data-1", "a", "8")], 3);
  assert.deepEqual([...view.podsOf({ uid: "unknown" } as never)], []);
  assert.equal(view.pod("orders-1")?.name, "orders-1");
});
