import assert from "node:assert/strict";
import { test } from "node:test";
import { ledgerGroup, reservations } from "../../functions/shared/annotations/table.ts";
import type { StoredPod } from "../fake-cluster/objects.ts";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld, type World } from "../fake-cluster/world.ts";
import { createBudget } from "../support/served-group.ts";
import { evictionGraceSeconds } from "./eviction.ts";
import { Referee } from "./referee.ts";

const namespace = "demo";

interface Scene {
  readonly world: World;
  readonly referee: Referee;
  /** Invariants that were broken so far. */
  broken(): string[];
  pod(name: string): StoredPod;
  /** Evicts as the API server does after the webhook has allowed it. */
  evict(name: string): void;
  /** Deletes as a rollout does. */
  remove(name: string): void;
}

/** Two zones of four ready pods, of which two may be down. */
function stand(): Scene {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const quiet = { onDeletion: () => undefined, onViolation: () => undefined };
  const willing = ({ metadata: { name } }: StoredPod) => name === "db-zone-a-3";
  const options = { world, namespace, group: "db", mayLeave: willing, ...quiet };
  const referee = new Referee(options);
  const zones = ["zone-a", "zone-b"];
  createBudget(world, world.addGroup({ namespace, group: "db", zones, replicas: 4, maxUnavailable: 2 }), 2);
  world.settle();
  // The checker allows for watchers that do not know a recent budget yet.
  timeline.runUntil(timeline.nowMs() + 60_000);
  referee.begin();
  const pod = (name: string) => world.store.get("pods", { namespace, name });
  const take = (name: string, options: { gracePeriodSeconds?: number }) => {
    const { uid } = pod(name).metadata;
    world.store.delete("pods", { namespace, name }, { ...options, preconditions: { uid } });
  };
  return {
    world,
    referee,
    broken: () => referee.violations.map(({ invariant }) => invariant),
    pod,
    evict: (name) => take(name, { gracePeriodSeconds: evictionGraceSeconds }),
    remove: (name) => take(name, {}),
  };
}

function reserve({ world, pod }: Scene, name: string): void {
  const table = { "db-zone-b": { 0: [pod(name).metadata.uid, "evaluate-eviction", 1] } };
  const annotations = { [ledgerGroup.key]: "db", [reservations.key]: JSON.stringify(table) };
  world.store.create("leases", namespace, { metadata: { name: "sluice-db", annotations } });
}

test("evictions within the budget of one zone break no invariant, and are counted separately from deletions", () => {
  const { evict, remove, world, referee, broken } = stand();
  evict("db-zone-a-0");
  evict("db-zone-a-1");
  assert.deepEqual(broken(), []);
  world.settle();
  world.changeTemplate({ namespace, name: "db-zone-b" }, "app:2");
  world.settle();
  remove("db-zone-b-0");
  assert.deepEqual(broken(), []);
  assert.deepEqual(referee.deletions, { all: 3, ready: 3, evicted: 2 });
  assert.deepEqual([referee.deletedIn("db-zone-a"), referee.deletedIn("db-zone-b")], [2, 1]);
});

test("a pod that its zone no longer wants breaks D1 by leaving only if it has not agreed", () => {
  const { world, referee, broken } = stand();
  const scale = (replicas: number) => {
    world.store.patch("statefulsets", { namespace, name: "db-zone-a" }, { spec: { replicas } });
    world.settle();
  };
  scale(3);
  assert.deepEqual(broken(), []);
  scale(2);
  assert.deepEqual(broken(), ["D1"]);
  assert.deepEqual([referee.left, referee.deletions.all], [2, 0]);
});

test("an eviction beyond the budget breaks E1, and one in a second zone breaks Z1", () => {
  const beyond = stand();
  for (const name of ["db-zone-a-0", "db-zone-a-1", "db-zone-a-2"]) beyond.evict(name);
  assert.deepEqual(beyond.broken(), ["E1"]);
  const elsewhere = stand();
  for (const name of ["db-zone-a-0", "db-zone-b-1"]) elsewhere.evict(name);
  assert.deepEqual(elsewhere.broken(), ["Z1"]);
});

test("evictions and deletions share one budget, and a deletion may only take an outdated pod", () => {
  const scene = stand();
  scene.world.changeTemplate({ namespace, name: "db-zone-a" }, "app:2");
  scene.world.settle();
  scene.evict("db-zone-a-0");
  scene.remove("db-zone-a-1");
  assert.deepEqual(scene.broken(), []);
  scene.remove("db-zone-a-2");
  assert.deepEqual(scene.broken(), ["Z2"]);
  const current = stand();
  current.remove("db-zone-a-0");
  assert.deepEqual(current.broken(), ["Z3"]);
});

test("any change of a pod after a dry run of its eviction breaks E2, once", () => {
  const traces: Record<string, (scene: Scene) => void> = {
    "was touched": ({ world }) => world.annotate({ namespace, name: "db-zone-b-0" }, { seen: "yes" }, "pods"),
    "was reserved": (scene) => reserve(scene, "db-zone-b-0"),
    "stands in an Event": ({ world }) => {
      const body = { metadata: { name: "said" }, message: "zone-budget: db-zone-b-0 stays until one is back" };
      world.store.create("events", namespace, body);
    },
  };
  for (const [trace, leave] of Object.entries(traces)) {
    const scene = stand();
    scene.referee.noteDryRun(scene.pod("db-zone-b-0"));
    leave(scene);
    scene.evict("db-zone-b-0");
    const messages = scene.referee.violations.map(({ invariant, message: text }) => `${invariant} ${text}`);
    assert.deepEqual(messages, [`E2 db-zone-b-0 ${trace} after nothing but a dry run`]);
  }
});

test("changes of other pods, and changes before the dry run, are no traces", () => {
  const scene = stand();
  scene.evict("db-zone-b-0");
  scene.world.settle();
  scene.referee.noteDryRun(scene.pod("db-zone-b-0"));
  reserve(scene, "db-zone-b-1");
  scene.world.store.create("events", namespace, { metadata: { name: "said" }, message: "db-zone-b-01 waits" });
  scene.evict("db-zone-b-1");
  assert.deepEqual(scene.broken(), []);
});
