/**
 * The checker of claims checks each ledger by what that ledger holds, and knows StatefulSets that have moved to another group.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualTimeline } from "../../fake-cluster/timeline.ts";
import { createWorld } from "../../fake-cluster/world.ts";
import { Past } from "../../support/checkers/past.ts";
import { Apps } from "./apps.ts";
import { ClaimsChecker } from "./checker.ts";

const namespace = "db";
const group = "group";
const ledger = "sluice-group";
const claim = { id: "one", kind: "scale-down", zone: "group-a", by: "suspend-group", members: "0-1", terms: "asked" };

/** Violations when a rollout deletes a claimed pod this long after its StatefulSet moved to another group. */
function violatedAfter(movedMs: number | undefined): readonly string[] {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const past = new Past(world, namespace);
  const violations: string[] = [];
  const violate = (invariant: string) => violations.push(invariant);
  const apps = new Apps(world);
  const checker = new ClaimsChecker({ world, apps, namespace, ledger, group, past, functions: new Map(), violate });
  world.addGroup({ namespace, group, zones: ["a", "b"], replicas: 2, maxUnavailable: 1 });
  world.settle();
  const metadata = { name: ledger, namespace, annotations: { "sluice.dev/claims": JSON.stringify(claim) } };
  checker.onLedgerEdited(world.store.create("leases", namespace, { metadata } as never) as never);
  timeline.runUntil(timeline.nowMs() + 60_000);
  if (movedMs !== undefined) {
    const labels = { "rollout-group": "other" };
    world.store.patch("statefulsets", { namespace, name: "group-a" }, { metadata: { labels } });
    timeline.runUntil(timeline.nowMs() + movedMs);
  }
  const pod = { namespace, name: "group-a-0" };
  const { uid } = world.store.get("pods", pod).metadata;
  const caller = { process: { name: "replica-1" }, role: { name: "replica" } };
  checker.onDeletionSent(caller as never, "pods", pod, { uid });
  return violations;
}

test("no other function takes a claimed pod (K3), until its StatefulSet has been in another group for 20 s", () => {
  assert.deepEqual(violatedAfter(undefined), ["K3"]);
  assert.deepEqual(violatedAfter(19_000), ["K3"]);
  assert.deepEqual(violatedAfter(21_000), []);
});

test("a claim that has come to name a new pod covers it (K3) once each deletion that was decided before has arrived", () => {
  const after = (ms: number) => {
    const timeline = new VirtualTimeline();
    const world = createWorld({ timeline });
    const violations: string[] = [];
    const violate = (invariant: string) => violations.push(invariant);
    const past = new Past(world, namespace);
    const apps = new Apps(world);
    const checker = new ClaimsChecker({ world, apps, namespace, ledger, group, past, functions: new Map(), violate });
    world.addGroup({ namespace, group, zones: ["a", "b"], replicas: 2, maxUnavailable: 1 });
    world.settle();
    const pod = { namespace, name: "group-a-0" };
    const { uid } = world.store.get("pods", pod).metadata;
    const note = (named: string) => {
      const text = JSON.stringify({ ...claim, uids: { "group-a-0": named } });
      const at = { namespace, name: ledger };
      const metadata = { name: ledger, namespace, annotations: { "sluice.dev/claims": text } };
      const isThere = world.store.find("leases", at) !== undefined;
      const lease = isThere
        ? world.store.patch("leases", at, { metadata: { annotations: metadata.annotations } })
        : world.store.create("leases", namespace, { metadata } as never);
      checker.onLedgerEdited(lease as never);
    };
    note("the pod before");
    timeline.runUntil(timeline.nowMs() + 60_000);
    note(uid);
    timeline.runUntil(timeline.nowMs() + ms);
    const caller = { process: { name: "replica-1" }, role: { name: "replica" } };
    checker.onDeletionSent(caller as never, "pods", pod, { uid });
    return violations;
  };
  assert.deepEqual(after(19_000), []);
  assert.deepEqual(after(21_000), ["K3"]);
});

const volumeClaim = "data-group-a-1";

/** Violations when the claim of a removal is dropped while its marked PVC is being deleted with these finalizers. */
function violatedUnder(finalizers: readonly string[]): readonly string[] {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const violations: string[] = [];
  const violate = (invariant: string) => violations.push(invariant);
  const apps = new Apps(world);
  const past = new Past(world, namespace);
  const checker = new ClaimsChecker({ world, apps, namespace, ledger, group, past, functions: new Map(), violate });
  world.addGroup({ namespace, group, zones: ["a", "b"], replicas: 2, maxUnavailable: 1, volumes: ["data"] });
  world.settle();
  const key = { namespace, name: volumeClaim };
  const { uid } = world.store.get("persistentvolumeclaims", key).metadata;
  const anchor = { resource: "persistentvolumeclaims", name: volumeClaim, annotation: "sluice.dev/removal-claim" };
  const removal = {
    ...claim,
    kind: "volume",
    by: "gc-suspended-groups",
    members: "1",
    anchor,
    uids: { [volumeClaim]: uid },
  };
  const removing = { metadata: { finalizers: [...finalizers], annotations: { [anchor.annotation]: claim.id } } };
  world.store.patch("persistentvolumeclaims", key, removing);
  const metadata = { name: ledger, namespace, annotations: { "sluice.dev/claims": JSON.stringify(removal) } };
  const lease = world.store.create("leases", namespace, { metadata } as never) as never;
  checker.onLedgerEdited(lease);
  world.store.delete("persistentvolumeclaims", key);
  timeline.runUntil(timeline.nowMs() + 60_000);
  const caller = { process: { name: "collector-1" }, role: { name: "collector" } };
  const { metadata: stored } = world.store.get("leases", { namespace, name: ledger });
  const emptied = { metadata: { ...stored, annotations: {} } };
  checker.onLedgerWritten({ caller, lease: emptied, all: [], made: [], seen: undefined } as never);
  return violations;
}

test("the claim of a removal lasts while our finalizer keeps its marked volume (K1), and no longer", () => {
  const protection = "kubernetes.io/pvc-protection";
  assert.deepEqual(violatedUnder([protection, "sluice.dev/volume-hold"]), ["K1"]);
  assert.deepEqual(violatedUnder([protection, "sluice.dev/volume-protection"]), ["K1"]);
  assert.deepEqual(violatedUnder([protection]), []);
});

/** Violations when a taker scales from 3 to 2 by a claim of these members, right after a user has scaled from 4 to 3. */
function violatedByScaling(members: string): readonly string[] {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const violations: string[] = [];
  const violate = (invariant: string, message: string) => violations.push(`${invariant} ${message.split(" ")[0]}`);
  const apps = new Apps(world);
  const past = new Past(world, namespace);
  const checker = new ClaimsChecker({ world, apps, namespace, ledger, group, past, functions: new Map(), violate });
  world.addGroup({ namespace, group, zones: ["a", "b"], replicas: 4, maxUnavailable: 1 });
  world.settle();
  const scaleDown = { ...claim, members, by: "take-scale-down" };
  const metadata = { name: ledger, namespace, annotations: { "sluice.dev/claims": JSON.stringify(scaleDown) } };
  checker.onLedgerEdited(world.store.create("leases", namespace, { metadata } as never) as never);
  const set = { namespace, name: "group-a" };
  timeline.runUntil(timeline.nowMs() + 1_000);
  world.store.patch("statefulsets", set, { spec: { replicas: 3 } });
  const { uid } = world.store.get("pods", { namespace, name: "group-a-2" }).metadata;
  apps.prepared.add(uid);
  const after = world.store.patch("statefulsets", set, { spec: { replicas: 2 } });
  const caller = { process: { name: "taker-1" }, role: { name: "taker" } };
  checker.onPatched(caller as never, "statefulsets", after as never);
  return violations;
}

test("a scale-down must have told and claimed the pods that it takes (D1, K4), but not those that a user has scaled away before", () => {
  assert.deepEqual(violatedByScaling("2"), []);
  assert.deepEqual(violatedByScaling("1"), ["K4 group-a-2"]);
});
