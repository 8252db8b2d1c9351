/**
 * Reconciles of pods whose owner is no StatefulSet: what the function writes, in which order, and what other clients
 * do meanwhile.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { formatClaims, makeClaim, parseClaims } from "../../../../functions/shared/ledger/claim.ts";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { suspendGroup } from "../../../../functions/suspend-group/function.ts";
import { group, owner } from "../../../support/owned.ts";
import type { Call } from "../../shared/reconcile/harness.ts";
import { Harness, namespace, played, refused } from "../../shared/reconcile/harness.ts";

const key = { namespace, group };
const claim = { namespace, name: "a-0-data" };
const pod = { namespace, name: "a-0" };
const claims = "persistentvolumeclaims";

/** A pod with a volume claim, a label that names its zone, and a request. The ledger permits a suspension. */
class OwnedHarness extends Harness {
  constructor() {
    super({ zones: ["a"], replicas: 1, volumes: ["data"] });
    const asked = {
      "sluice.dev/owner": owner,
      "sluice.dev/zone-label": "zone",
      "sluice.dev/suspend-duration": "1h",
      "sluice.dev/suspend": "true",
      "sluice.dev/drained-at": "2026-01-01T00:00:05Z",
    };
    this.world.store.create(claims, namespace, { metadata: { name: claim.name, annotations: asked } } as never);
    this.makePod();
  }

  makePod(): void {
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: claim.name } }];
    const spec = { containers: [{ name: "db", image: "db:1" }], volumes };
    // The fake cluster has no object of the pod's owner, so the pod itself says that it may go.
    const labels = { zone: "a", "sluice.dev/suspendable": "true" };
    this.world.store.create("pods", namespace, { metadata: { name: pod.name, labels }, spec } as never);
  }

  /** The pod is protected, and the ledger is old: the next reconcile lets the pod go. */
  async ready(): Promise<this> {
    await this.goOn(2_000);
    await this.reconcile();
    await this.goOn(11_000);
    this.forget();
    return this;
  }

  async reconcile(): Promise<void> {
    const outcome = await played(this.timeline, suspendGroup.reconcile(this.context, key, { sweep: true }));
    if (outcome.pendingActs !== undefined) await played(this.timeline, outcome.pendingActs);
  }

  decided(name: string): string | undefined {
    return this.world.store.get(claims, claim).metadata.annotations?.[`sluice.dev/${name}`];
  }

  get pod() {
    return this.world.store.find("pods", pod)?.metadata;
  }

  get claimed() {
    const lease = this.world.store.find("leases", { namespace, name: ledgerName(group) });
    const text = lease?.metadata.annotations?.["sluice.dev/claims"] ?? "";
    return parseClaims(text, (why) => new Error(String(why)));
  }
}

test("a protected volume claim that a user deletes is suspended without another finalizer, which the API server would refuse", async () => {
  const harness = new OwnedHarness();
  const { store } = harness.world;
  store.patch(claims, claim, { metadata: { finalizers: ["sluice.dev/volume-protection"] } } as never);
  store.delete(claims, claim);
  await harness.ready();
  assert.equal(harness.decided("suspend-state"), undefined, "its pod still exists");
  store.delete("pods", pod);
  await harness.goOn(60_000);
  await harness.reconcile();
  await harness.goOn(1_000);
  await harness.reconcile();
  const { finalizers, labels } = store.get(claims, claim).metadata;
  assert.deepEqual([harness.decided("suspend-state"), finalizers], ["Suspended", ["sluice.dev/volume-protection"]]);
  assert.equal(labels?.["sluice.dev/suspended"], "true");
  assert.match(harness.decided("suspend-message") ?? "", /not before .*; another client has deleted its volume claim/);
});

const isMark = ({ verb, resource, given }: Call) =>
  verb === "patch" && resource === claims && JSON.stringify(given[2]).includes("suspend-pod-uid");
const isDeletion = ({ verb, resource }: Call) => verb === "delete" && resource === "pods";

test("the zone's label is recorded with the finalizer; then the claim, the mark and the deletion follow each other", async () => {
  const harness = await new OwnedHarness().ready();
  assert.equal(harness.decided("zone"), "a");
  await harness.reconcile();
  const writes = harness.requests.filter((word) => /^(patch|delete|create)/.test(word));
  assert.deepEqual(writes.slice(0, 3), ["patch leases", `patch ${claims}`, "delete pods"]);
  assert.equal(harness.decided("suspend-pod-uid"), harness.pod?.uid);
  const sent = harness.calls.filter((call) => isMark(call) || isDeletion(call));
  const limits = sent.map(
    ({ given }) => (given[3] as { notAfterMs: number }).notAfterMs - harness.cluster.monotonicMs(),
  );
  assert.equal(limits.length, 2);
  assert.ok(
    limits.every((ms) => ms > 0 && ms <= 5_000),
    "each is sent within five seconds after the claim (R9)",
  );
  assert.notEqual(harness.pod?.deletionTimestamp, undefined);
});

test("a pod stays if its request is removed after the decision", async () => {
  const harness = await new OwnedHarness().ready();
  harness.interfere = (call) => {
    if (isMark(call)) harness.world.annotate(claim, { "sluice.dev/suspend": null }, claims);
  };
  await harness.reconcile();
  assert.equal(harness.count("delete pods"), 0);
  assert.equal(harness.pod?.deletionTimestamp, undefined);
});

test("a pod that has replaced the decided one under its name stays", async () => {
  const harness = await new OwnedHarness().ready();
  const before = harness.pod?.uid;
  harness.interfere = (call) => {
    if (!isDeletion(call)) return;
    harness.world.store.delete("pods", pod, { gracePeriodSeconds: 0 });
    harness.makePod();
  };
  await harness.reconcile();
  assert.equal(harness.count("delete pods"), 1);
  assert.notEqual(harness.pod?.uid, before);
  assert.equal(harness.pod?.deletionTimestamp, undefined);
});

test("a volume claim is not cleared while a claim that was made after the read of the ledger may still take its pod", async () => {
  const harness = await new OwnedHarness().ready();
  harness.world.annotate(claim, { "sluice.dev/suspend": null }, claims);
  const lease = { namespace, name: ledgerName(group) };
  const claimed = makeClaim({
    ...{ id: "other", by: "suspend-group", kind: "scale-down", phase: "confirmed", terms: "asked" },
    ...{ zone: "a", members: [{ first: 0, last: 2 ** 31 - 2 }], stampMs: harness.cluster.serverTimeMs() },
  });
  harness.interfere = ({ resource }) => {
    // The last object that is read before the decision.
    if (resource !== "namespaces") return;
    harness.world.annotate(lease, { "sluice.dev/claims": formatClaims([claimed]) }, "leases");
  };
  await harness.reconcile();
  assert.equal(harness.claimed.length, 1);
  assert.equal(harness.decided("suspend-state"), "Suspending");
  harness.interfere = () => undefined;
  harness.world.annotate(lease, { "sluice.dev/claims": null }, "leases");
  await harness.goOn(200_000);
  await harness.reconcile();
  assert.equal(harness.decided("suspend-state"), undefined, "without the claim it is cleared");
});

test("each mark of a pod that goes differs, so that no process clears a volume claim that was marked again", async () => {
  const harness = await new OwnedHarness().ready();
  let revision = "";
  harness.interfere = (call) => {
    if (isMark(call)) revision = (call.given[2] as { metadata: { resourceVersion: string } }).metadata.resourceVersion;
  };
  await harness.reconcile();
  assert.match(harness.decided("suspend-message") ?? "", new RegExp(`revision ${revision} of a-0-data`));
});

const lost = new ClusterError({ code: 0, reason: "Lost", message: "no answer", verb: "delete", resource: "pods" });

test("a claim ends at once if no deletion was sent, and after 90 s if a deletion got no answer", async () => {
  for (const [isMet, error, leftMs] of [
    [isMark, refused(403), 0],
    [isDeletion, refused(403), 0],
    [isDeletion, lost, 90_000],
  ] as const) {
    const harness = await new OwnedHarness().ready();
    harness.interfere = (call) => {
      if (isMet(call)) throw error;
    };
    await harness.reconcile();
    assert.equal(harness.claimed.length, 1);
    harness.world.annotate(claim, { "sluice.dev/suspend": "perhaps" }, claims);
    await harness.goOn(leftMs - 10_000);
    if (leftMs > 0) {
      await harness.reconcile();
      assert.equal(harness.claimed.length, 1, "another process may still carry the claim out");
      await harness.goOn(20_000);
    }
    await harness.reconcile();
    assert.deepEqual(harness.claimed, []);
    assert.equal(harness.pod?.deletionTimestamp, undefined);
  }
});

test("delete-refused: the volume claim gives the API server's reason, and the deletion is tried again after half a minute", async () => {
  const harness = await new OwnedHarness().ready();
  harness.interfere = (call) => {
    if (isDeletion(call)) throw refused(403, "a policy keeps it");
  };
  await harness.reconcile();
  await harness.goOn(2_000);
  await harness.reconcile();
  assert.match(
    harness.decided("suspend-message") ?? "",
    /^delete-refused: .*does not let pods of a go: .*a policy keeps it/,
  );
  assert.equal(harness.count("delete pods"), 1);
  harness.interfere = () => {};
  await harness.goOn(30_000);
  await harness.reconcile();
  assert.notEqual(harness.pod?.deletionTimestamp, undefined);
});

test("a volume claim that a StatefulSet created never belongs to another owner, whatever its labels say", async () => {
  const harness = await new OwnedHarness().ready();
  const made = { namespace, name: "data-group-a-0" };
  const annotations = harness.world.store.get(claims, claim).metadata.annotations ?? {};
  harness.world.annotate(made, { ...annotations, "sluice.dev/zone": "b" }, claims);
  const need = { settledThrough: 0, permitSinceMs: undefined, consistent: true };
  const view = await played(harness.timeline, harness.context.cache.read(key, need));
  assert.deepEqual(
    view.workloads.map(({ name }) => name),
    ["a"],
  );
  await harness.reconcile();
  const patched = harness.calls.filter(({ verb, resource }) => verb === "patch" && resource === claims);
  assert.deepEqual([...new Set(patched.map(({ given }) => (given[1] as { name: string }).name))], [claim.name]);
  assert.equal(
    harness.world.store.find("pods", { namespace, name: "group-a-0" })?.metadata.deletionTimestamp,
    undefined,
  );
});

test("disruption-budget: no deletion is sent while a PodDisruptionBudget that selects the pod allows none", async () => {
  const harness = await new OwnedHarness().ready();
  const { store } = harness.world;
  const selector = { matchLabels: { zone: "a" } };
  const status = {
    observedGeneration: 1,
    disruptionsAllowed: 0,
    desiredHealthy: 1,
    currentHealthy: 1,
    expectedPods: 1,
  };
  store.create("poddisruptionbudgets", namespace, {
    metadata: { name: "orders", generation: 1 },
    spec: { minAvailable: 1, selector },
    status,
  } as never);
  await harness.reconcile();
  assert.match(
    harness.decided("suspend-message") ?? "",
    /^disruption-budget: a-0 is to go, and waits: a-0: .*PodDisruptionBudget orders/,
  );
  assert.ok(!harness.calls.some(isDeletion));
  store.delete("poddisruptionbudgets", { namespace, name: "orders" });
  await harness.reconcile();
  assert.ok(harness.calls.some(isDeletion));
});
