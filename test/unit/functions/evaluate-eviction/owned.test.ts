/** Evictions of pods whose owner is no StatefulSet: the ledger of their group decides. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pinningPath, plainPaths } from "../../../../functions/evaluate-eviction/observe.ts";
import { formatClaims, makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { finishAfterMs } from "../../../../functions/shared/ledger/reservation.ts";
import { suspendGroup } from "../../../../functions/suspend-group/function.ts";
import { group, owner } from "../../../support/owned.ts";
import { Harness, namespace, played, refused } from "../../shared/reconcile/harness.ts";
import { Replica } from "./group-commit/reviews.ts";

const key = { namespace, group };
const anchor = { resource: "persistentvolumeclaims", name: "a-0-data", annotation: "sluice.dev/removal-claim" };
const lease = { namespace, name: ledgerName(group) };

/** Two pods of an owner in each of two zones, each with a volume claim, under a ledger that permits. */
class OwnedGroup extends Harness {
  constructor() {
    super({ zones: ["set"], replicas: 1, volumes: ["data"] });
    for (const zone of ["a", "b"]) for (const number of [0, 1]) this.addPod(zone, `${zone}-${number}`);
  }

  addPod(zone: string, name: string): void {
    const annotations = { "sluice.dev/owner": owner, "sluice.dev/zone": zone, "sluice.dev/suspend-duration": "1h" };
    const claim = { name: `${name}-data`, annotations };
    this.world.store.create("persistentvolumeclaims", namespace, { metadata: claim } as never);
    this.makePod(name);
  }

  makePod(name: string): void {
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: `${name}-data` } }];
    const spec = { containers: [{ name: "db", image: "db:1" }], volumes };
    this.world.store.create("pods", namespace, { metadata: { name }, spec } as never);
    this.ready(name);
  }

  ready(name: string): void {
    const pod = this.world.store.get("pods", { namespace, name });
    const conditions = [{ type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }];
    this.world.store.putStatus("pods", pod, { phase: "Running", conditions } as never);
  }

  /** The claim as the function that suspends makes it, old enough to permit. */
  async withLedger(): Promise<this> {
    const claim = { namespace, name: "a-0-data" };
    this.world.annotate(claim, { "sluice.dev/suspend": "true" }, "persistentvolumeclaims");
    const outcome = await played(this.timeline, suspendGroup.reconcile(this.context, key, { sweep: true }));
    if (outcome.pendingActs !== undefined) await played(this.timeline, outcome.pendingActs);
    await this.goOn(60_000);
    this.forget();
    return this;
  }

  claimed(kind: "scale-down" | "volume", zone: string, names: readonly string[]): void {
    const uids = names.map((name) => [name, this.world.store.get("pods", { namespace, name }).metadata.uid] as const);
    const stampMs = this.timeline.nowMs();
    const claim = makeClaim({
      ...{ id: "one", kind, zone, members: [{ first: 2_000_000_000, last: 2_000_000_000 }], phase: "confirmed" },
      ...{ uids: Object.fromEntries(uids), by: "suspend-group", stampMs, terms: "asked" as const },
      ...(kind === "volume" ? { anchor } : {}),
    });
    this.world.annotate(lease, { "sluice.dev/claims": formatClaims([claim]) }, "leases");
  }

  get reserved(): string {
    return this.world.store.get("leases", lease).metadata.annotations?.["sluice.dev/reservations"] ?? "";
  }
}

test("a pod of an owner is evicted within its group's ledger: no other zone goes until its zone is whole again", async () => {
  const harness = await new OwnedGroup().withLedger();
  const replica = new Replica(harness);
  assert.deepEqual(await replica.guards(replica.review("a-0")), ["allowed"]);
  assert.match(harness.reserved, /evaluate-eviction/);
  const others = () => replica.guards(replica.review("b-0"), replica.review("b-1", { dryRun: true }));
  assert.deepEqual(await others(), ["zones-down", "zones-down"], "it is allowed, and has not gone yet");
  assert.deepEqual(await replica.guards(replica.review("a-1")), ["allowed"], "pods of one zone go together");
  harness.world.store.delete("pods", { namespace, name: "a-0" }, { gracePeriodSeconds: 0 });
  harness.world.store.delete("pods", { namespace, name: "a-1" }, { gracePeriodSeconds: 0 });
  await harness.goOn(2_000);
  assert.deepEqual(await others(), ["zones-down", "zones-down"], "its pods are missing");
  for (const name of ["a-0", "a-1"]) harness.makePod(name);
  await harness.goOn(2_000);
  assert.deepEqual(await replica.guards(replica.review("b-0")), ["allowed"]);
});

test("two evictions of two zones at the same moment are not both allowed", async () => {
  const harness = await new OwnedGroup().withLedger();
  const one = new Replica(harness);
  const together = await one.guards(one.review("a-0"), one.review("b-0"));
  assert.deepEqual(together.sort(), ["allowed", "zones-down"], "in one process");
  const again = await new OwnedGroup().withLedger();
  const [third, fourth] = [new Replica(again), new Replica(again)];
  const both = await third.guards(third.review("a-0"), fourth.review("b-0"));
  assert.deepEqual(both.sort(), ["allowed", "zones-down"], "in two");
});

test("a claimed pod belongs to its function, and while a zone is claimed no pod of another zone is evicted", async () => {
  for (const kind of ["scale-down", "volume"] as const) {
    const harness = await new OwnedGroup().withLedger();
    harness.claimed(kind, "a", ["a-0"]);
    const guard = kind === "volume" ? "zone-removing-volume" : "zone-scaling-down";
    const replica = new Replica(harness);
    const asked = ["a-0", "b-0", "a-1"].map((name) => replica.review(name));
    assert.deepEqual(await replica.guards(...asked), [guard, guard, "allowed"], kind);
  }
});

test("by its name alone a pod of an owner is allowed once, and not again while that eviction may be under way", async () => {
  const harness = await new OwnedGroup().withLedger();
  const replica = new Replica(harness);
  const ask = () => replica.guards(replica.review("a-0", { path: plainPaths[0] }));
  assert.deepEqual(await ask(), ["allowed"]);
  assert.deepEqual(await ask(), ["replacement-reserved"]);
  await harness.goOn(finishAfterMs);
  assert.deepEqual(await ask(), ["allowed"]);
  assert.deepEqual(await replica.guards(replica.review("a-0", { path: pinningPath })), ["allowed"]);
});

test("an eviction of a pod without an owner costs one LIST of Leases a second, and no other read of its namespace", async () => {
  const harness = new OwnedGroup();
  harness.world.store.create("pods", namespace, { metadata: { name: "web-x" }, spec: { containers: [] } });
  const replica = new Replica(harness);
  for (let number = 0; number < 20; number++)
    assert.deepEqual(await replica.guards(replica.review("web-x")), ["out-of-scope"]);
  assert.equal(replica.count("list leases"), 1);
  assert.equal(replica.count("list persistentvolumeclaims"), 0);
  await harness.withLedger();
  for (let number = 0; number < 20; number++)
    assert.deepEqual(await replica.guards(replica.review("web-x")), ["out-of-scope"]);
  assert.equal(replica.count("list persistentvolumeclaims"), 1, "only beside such a group, and once a second");
});

test("if the Leases or the volume claims cannot be read, the pod stays, with a 429 that says what failed", async () => {
  for (const resource of ["leases", "persistentvolumeclaims"])
    for (const code of [403, 409, 422, 429, 500, 0]) {
      const harness = await new OwnedGroup().withLedger();
      const replica = new Replica(harness);
      replica.interfere = (call) => {
        if (call.resource === resource) throw refused(code);
      };
      const answer = await replica.answer(replica.review("a-0"));
      assert.equal(answer.allowed || answer.code, 429, `${resource} ${code}`);
    }
});
