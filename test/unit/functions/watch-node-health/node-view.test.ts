/** What a Node says of its health: its mark, its fence, and what forbids to mark it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { unhealthy } from "../../../../functions/shared/annotations/fencing.ts";
import type { NodeObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { nodeView } from "../../../../functions/watch-node-health/node-view.ts";

function viewOf(
  annotations: Readonly<Record<string, string>> = {},
  more: {
    readonly spec?: NodeObject["spec"];
    readonly deletionTimestamp?: string;
    readonly conditions?: object[];
  } = {},
) {
  const { spec, deletionTimestamp, conditions = [{ type: "Ready", status: "False", lastTransitionTime: "t" }] } = more;
  const metadata = {
    name: "n",
    uid: "u",
    resourceVersion: "1",
    annotations,
    ...(deletionTimestamp && { deletionTimestamp }),
  };
  const status = { conditions, nodeInfo: { bootID: "b" } };
  return nodeView({ metadata, ...(spec && { spec }), status } as unknown as NodeObject, unhealthy);
}

const mark = "sluice.dev/unhealthy";

test("a mark is of this function by the begin of its text alone, and an empty one is of another client", () => {
  const marksOf = (text: string) => {
    const view = viewOf({ [mark]: text });
    return [view.mark, view.isMarked];
  };
  assert.deepEqual(marksOf("watch-node-health: Ready is Unknown"), ["own", true]);
  assert.deepEqual(marksOf("disk failed"), ["of-others", true]);
  assert.deepEqual(marksOf("not watch-node-health: x"), ["of-others", true]);
  assert.deepEqual(marksOf(""), ["of-others", false]);
  const view = viewOf();
  assert.deepEqual([view.mark, view.isMarked], [undefined, false]);
});

test("the condition Ready is taken as it stands, and a Node without one has never reported", () => {
  const { status, changedAt, isReady, bootId } = viewOf();
  assert.deepEqual([status, changedAt, isReady, bootId], ["False", "t", false, "b"]);
  assert.equal(viewOf({}, { conditions: [{ type: "Ready", status: "True" }] }).isReady, true);
  const fresh = nodeView({ metadata: { name: "n", uid: "u", resourceVersion: "1" } }, unhealthy);
  assert.deepEqual([fresh.status, fresh.isReady, fresh.bootId], [undefined, false, ""]);
});

test("a fence shows on its Node how far it is, also in a phase that is not known", () => {
  const fenceOf = (phase: string) => viewOf({ "sluice.dev/fence-phase": phase }).fence;
  assert.deepEqual(["claimed", "armed", "recovering", "of the future"].map(fenceOf), [
    "claimed",
    "going-on",
    "going-on",
    "going-on",
  ]);
  assert.equal(viewOf().fence, "none");
});

test("a node is excluded that is being deleted, never fenced, in maintenance, cordoned, or fenced by another tool", () => {
  const taints = [{ key: "remediation.medik8s.io/self", effect: "NoExecute" }];
  const maintenance = (status: string) => ({ conditions: [{ type: "MaintenanceInProgress", status }] });
  const views = [
    [viewOf({}, { deletionTimestamp: "t" }), "deleting-node"],
    [viewOf({ "sluice.dev/fence": "never" }), "never-fenced"],
    [viewOf({ "sluice.dev/fence": "rubbish" }), "never-fenced"],
    [viewOf({}, maintenance("True")), "maintenance"],
    [viewOf({}, maintenance("False")), undefined],
    [viewOf({}, { spec: { unschedulable: true } }), "cordoned"],
    [viewOf({}, { spec: { unschedulable: false } }), undefined],
    [viewOf({}, { spec: { taints } }), "foreign-fence"],
    [viewOf({}, { spec: { taints: [{ key: "node.kubernetes.io/unreachable", effect: "NoExecute" }] } }), undefined],
    [viewOf(), undefined],
  ] as const;
  for (const [view, guard] of views) assert.equal(view.excluded?.guard, guard);
  assert.match(viewOf({}, { spec: { taints } }).excluded?.message ?? "", /the taint remediation\.medik8s\.io\/self$/);
  for (const [view] of views) if (view.excluded !== undefined) assert.match(view.excluded.message, /\bn\b/);
});
