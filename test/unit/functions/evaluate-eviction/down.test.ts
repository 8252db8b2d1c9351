/**
 * An eviction of a pod that is already down takes no place in the budget, as long as it takes the pod that was seen (R13,
 * R14).
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pinningPath, plainPaths } from "../../../../functions/evaluate-eviction/observe.ts";
import { type Harness, namespace, played, refused } from "../../shared/reconcile/harness.ts";
import { pod, reservation, zone } from "../advance-zone-rollout/given.ts";
import { guards, rule } from "./given-evictions.ts";
import { governedGroup, Replica, reserved } from "./group-commit/reviews.ts";

const down = new Map([["uid-of-a-0", "77"]]);

test("a pod that is down goes outside of the budget, pinned to what was seen, in zone and in partition mode, without a reservation", () => {
  const partitions = { budget: { maxUnavailable: 1, podNamePartitionRegex: "[a-z]-([0-9]+)" } };
  const pin = [{ op: "add", path: "/deleteOptions", value: { preconditions: { uid: "uid-of-a-0" } } }];
  for (const [zones, changes, guard] of [
    [[zone("a", "xoo"), zone("b", "oxo")], {}, "zones-down"],
    [[zone("a", "xxo"), zone("b", "ooo")], {}, "zone-budget"],
    [[zone("a", "xoo"), zone("b", "xoo")], partitions, "partition-budget"],
    [[zone("a", "xoo"), zone("b", "ooo")], { departed: [reservation("z-0")] }, "zone-departed"],
  ] as const) {
    assert.deepEqual(guards(zones, ["a-0"], changes), [guard], "without a read of the pod itself");
    const [decision] = rule(zones, [{ name: "a-0", pin }], { ...changes, down });
    assert.equal(decision?.reserve, undefined);
    assert.ok(decision?.answer.allowed, guard);
    const revision = { op: "add", path: "/deleteOptions/preconditions/resourceVersion", value: "77" };
    assert.deepEqual(decision.answer.patch, [...pin, revision]);
    assert.deepEqual(decision.answer.warnings, ["a-0 is down already, and goes beside the budget, as it was seen"]);
  }
});

test("a pod that is down goes within its budget as any other does, and is reserved", () => {
  const [decision] = rule([zone("a", "xoo"), zone("b", "ooo")], [{ name: "a-0", pin: [] }], { down });
  assert.deepEqual(decision?.reserve, { statefulSet: "a", ordinal: 0, uid: "uid-of-a-0" });
});

test("guards that no budget of zones can lift also block a pod that is down", () => {
  const torn = [zone("a", "xoo"), zone("b", "oxo")];
  assert.deepEqual(guards(torn, ["a-0"], { down, budget: { maxUnavailable: 0 } }), ["never-possible"]);
  assert.deepEqual(guards([zone("a", "xoo")], ["a-0"], { down }), ["too-few-zones"]);
  const other = zone("b", "oxo", { extra: [pod("b-3", { readySinceMs: undefined })] });
  assert.deepEqual(guards([zone("a", "xoo"), other], ["b-1", "a-0"], { down }), ["zones-down", "allowed"]);
});

/** The group with one broken pod in each zone, as the API server has it. */
async function torn(): Promise<Harness> {
  const harness = await governedGroup();
  for (const name of ["group-a-0", "group-b-1"]) breakPod(harness, name);
  await harness.goOn(1_000);
  return harness;
}

function breakPod({ world }: Harness, name: string, status = "False"): void {
  const found = world.store.get("pods", { namespace, name });
  const conditions = [{ type: "Ready", status, lastTransitionTime: "2026-01-01T00:01:00Z" }];
  world.store.putStatus("pods", found, { ...found.status, conditions } as never);
}

function revisionOf({ world }: Harness, name: string): string {
  return world.store.get("pods", { namespace, name }).metadata.resourceVersion;
}

test("broken pods of two zones do not block each other's eviction: each goes, pinned to what was seen", async () => {
  const harness = await torn();
  const replica = new Replica(harness);
  for (const name of ["group-a-0", "group-b-1"]) {
    const answer = await replica.answer(replica.review(name));
    assert.ok(answer.allowed, name);
    assert.match(JSON.stringify(answer.patch), new RegExp(`"value":"${revisionOf(harness, name)}"`));
  }
  assert.deepEqual(reserved(harness), []);
  assert.deepEqual(await replica.guards(replica.review("group-a-1"), replica.review("group-b-0")), [
    "zones-down",
    "zones-down",
  ]);
});

test("a stale view that shows a ready pod as down does not let it go outside of the budget (R14)", async () => {
  const harness = await torn();
  const frozen = harness.context.cache;
  const need = { settledThrough: undefined, permitSinceMs: undefined, consistent: false };
  const view = await played(harness.timeline, frozen.read({ namespace, group: "group" }, need));
  breakPod(harness, "group-a-0", "True");
  const replica = new Replica(harness, () => ({ cache: { ...frozen, read: async () => view } }));
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["zones-down"]);
});

test("without a pinned revision, an existing ledger, or a read of the pod, a broken pod waits like any other", async () => {
  const harness = await torn();
  const replica = new Replica(harness);
  const uid = replica.uidOf("group-a-0");
  const object = (preconditions: object) => ({ object: { deleteOptions: { preconditions } } });
  assert.deepEqual(
    await replica.guards(
      replica.review("group-a-0", { path: plainPaths[0] }),
      replica.review("group-a-0", { path: pinningPath, ...object({ uid }) }),
      replica.review("group-a-0", { path: pinningPath, ...object({ resourceVersion: "1" }) }),
    ),
    ["zones-down", "zones-down", "zones-down"],
  );
  for (const code of [401, 403, 404, 409, 422, 429, 500, 0]) {
    let reads = 0;
    replica.interfere = ({ verb, resource }) => {
      // The first request is the review's own.
      if (verb === "get" && resource === "pods" && reads++ > 0) throw refused(code);
    };
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["zones-down"], String(code));
  }
  replica.interfere = ({ verb, resource }) => {
    if (verb === "get" && resource === "pods") harness.writeLedger({ other: String(harness.timeline.nowMs()) });
  };
  assert.deepEqual(
    await replica.guards(replica.review("group-a-0")),
    ["zones-down"],
    "another function may have claimed it",
  );
});
