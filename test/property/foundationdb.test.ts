/** Blocked removals of a FoundationDBCluster, over drawn histories in which processes are killed at any write. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import { playFoundation } from "../support/foundation-history.ts";
import { withoutRevisions } from "../support/owned-history.ts";

const seeds = Array.from({ length: 10 }, (_, index) => index + 1);

test("no block is lifted before its time, no user's block is ever lifted, and in the end nothing waits", async (context) => {
  const counts: Record<string, number> = {};
  for (const seed of seeds) {
    const { violations, left, ...history } = await playFoundation(seed);
    assert.deepEqual([violations, left], [[], []], `seed ${seed}`);
    for (const [what, count] of Object.entries(history.counts)) counts[what] = (counts[what] ?? 0) + count;
  }
  context.diagnostic(JSON.stringify(counts));
  for (const what of ["pods", "volumes", "wishes", "kills", "lifted", "removed", "overwritten", "cancelled"])
    assert.ok((counts[what] ?? 0) > 10, what);
});

test("with protected volumes, an operator that is faster than our block removes no volume before its time, and in the end all are gone", async (context) => {
  const counts: Record<string, number> = {};
  for (const seed of seeds) {
    const { violations, left, ...history } = await playFoundation(seed, { protects: true });
    assert.deepEqual([violations, left], [[], []], `seed ${seed}`);
    for (const [what, count] of Object.entries(history.counts)) counts[what] = (counts[what] ?? 0) + count;
  }
  context.diagnostic(JSON.stringify(counts));
  for (const what of ["outrun", "volumes", "wishes", "kills", "removed"]) assert.ok((counts[what] ?? 0) > 10, what);
});

test("if the API server drops our finalizer, such an operator removes volumes before their time", async () => {
  let isFound = false;
  for (const seed of seeds) {
    const { violations } = await playFoundation(seed, { protects: true, wrap: withoutFinalizer });
    isFound ||= violations.length > 0;
    if (isFound) break;
  }
  assert.ok(isFound, "within the same seeds");
});

test("if a cluster is written without a condition on its revision, a user's block is lost or a removal is released too early", async () => {
  const wrap = withoutRevisions("foundationdbclusters");
  let isFound = false;
  for (const seed of seeds) {
    const { violations, left } = await playFoundation(seed, { wrap });
    isFound ||= violations.length + left.length > 0;
    if (isFound) break;
  }
  assert.ok(isFound, "within the same seeds");
});

/** An API server that accepts our writes, but drops the finalizer of a protection. */
function withoutFinalizer(cluster: Cluster): Cluster {
  return wrapCluster(cluster, {
    patch: ((resource: "leases", object: never, body: { metadata?: { finalizers?: string[] } }, options: never) => {
      const { finalizers, ...metadata } = body.metadata ?? {};
      const others = finalizers?.filter((one) => one !== "sluice.dev/volume-protection");
      const kept = others === undefined ? metadata : { ...metadata, finalizers: others };
      return cluster.patch(resource, object, { ...body, metadata: kept } as never, options);
    }) as Cluster["patch"],
  });
}
