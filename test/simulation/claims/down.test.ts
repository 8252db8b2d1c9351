/** Which pods count as down where the checker of claims checks a write. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualTimeline } from "../../fake-cluster/timeline.ts";
import { createWorld } from "../../fake-cluster/world.ts";
import type { SeenView } from "../../support/checkers/ledger-write.ts";
import { downIn, isDownAlready } from "./down.ts";

const namespace = "db";

/** A StatefulSet of three pods, and a view that lacks these. */
function zoneWithout(...missing: readonly string[]) {
  const world = createWorld({ timeline: new VirtualTimeline() });
  world.addGroup({ namespace, group: "group", zones: ["a"], replicas: 3, maxUnavailable: 1 });
  world.settle();
  const set = world.store.get("statefulsets", { namespace, name: "group-a" });
  const pod = (name: string) => (missing.includes(name) ? undefined : world.store.get("pods", { namespace, name }));
  return { set, view: { members: [set], neighbours: [], budgets: [], pod } satisfies SeenView };
}

const claimOf = (members: string, kind = "process") => ({ id: "one", kind, zone: "group-a", members, line: "" });

test("the restart of a process takes nothing more only where none of its pods is up", () => {
  const { set, view } = zoneWithout("group-a-0");
  assert.equal(isDownAlready(claimOf("0"), set, view), true);
  assert.equal(isDownAlready(claimOf("1"), set, view), false);
  assert.equal(isDownAlready(claimOf("0-1"), set, view), false);
});

test("missing, reserved and claimed pods are down, and one whose volume is claimed is not", () => {
  const { set, view } = zoneWithout("group-a-0");
  const reserved = [{ set: "group-a", ordinal: 1, uid: "any" }] as never;
  assert.deepEqual([...downIn(set, [], [], view)], ["group-a-0"]);
  assert.deepEqual([...downIn(set, [], reserved, view)], ["group-a-0", "group-a-1"]);
  assert.deepEqual([...downIn(set, [claimOf("2")], [], view)], ["group-a-0", "group-a-2"]);
  assert.deepEqual([...downIn(set, [claimOf("2", "volume")], [], view)], ["group-a-0"]);
});
