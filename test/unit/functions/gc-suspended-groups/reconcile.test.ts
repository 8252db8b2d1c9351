/** Reconciles that remove volumes: changes between the mark and the deletion, and volumes that are kept. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { gcSuspendedGroups } from "../../../../functions/gc-suspended-groups/function.ts";
import { formatClaims, makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { suspendGroup } from "../../../../functions/suspend-group/function.ts";
import { Harness, key, namespace, played } from "../../shared/reconcile/harness.ts";

const claims = "persistentvolumeclaims";
const set = { namespace, name: "group-a" };
const names = ["data-group-a-1", "journal-group-a-1"];

const ours = (texts: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(texts).map(([name, text]) => [`sluice.dev/${name}`, text]));

/** Two volumes whose pod is gone: the next reconcile of gc-suspended-groups marks both and deletes them. */
class Removals extends Harness {
  static async suspended(changes: Readonly<Record<string, string>> = {}): Promise<Removals> {
    const on = new Removals({ zones: ["a"], replicas: 2, volumes: ["data", "journal"] });
    const asked = { suspend: "true", "drained-at": "2026-01-01T00:00:05Z", ...changes };
    on.world.annotate(set, ours({ "suspend-duration": "0", "removal-mode": "All" }));
    for (const name of names) on.world.annotate({ namespace, name }, ours(asked), claims);
    for (let round = 0; round < 30 && !on.states.every((state) => state === "Suspended"); round++) {
      await on.reconcile(suspendGroup);
      await on.goOn(2_000);
    }
    assert.deepEqual(on.states, ["Suspended", "Suspended"]);
    await on.goOn(60_000);
    on.forget();
    return on;
  }

  async reconcile({ reconcile }: typeof suspendGroup): Promise<number | undefined> {
    const outcome = await played(this.timeline, reconcile(this.context, key, { sweep: true }));
    if (outcome.pendingActs !== undefined) await played(this.timeline, outcome.pendingActs);
    return outcome.requeueAfterMs;
  }

  /**
   * Runs one reconcile of gc-suspended-groups. `between`: what a user does after both volumes are marked and before they are
   * read again.
   */
  async remove(between: () => void = () => {}): Promise<void> {
    let isDone = false;
    this.interfere = ({ verb }) => {
      if (isDone || verb !== "list" || !this.states.every((state) => state === "Removing")) return;
      isDone = true;
      between();
    };
    await this.reconcile(gcSuspendedGroups);
    assert.ok(isDone, "both volumes were marked and read again");
  }

  get states(): readonly (string | undefined)[] {
    return names.map((name) => {
      const claim = this.world.store.find(claims, { namespace, name });
      return claim?.metadata.annotations?.["sluice.dev/suspend-state"];
    });
  }

  /** Number of DELETE requests for volume claims. */
  get deleted(): number {
    return this.count(`delete ${claims}`);
  }
}

test("both volumes of a deleted pod are marked, read again, and deleted", async () => {
  const on = await Removals.suspended();
  await on.remove();
  assert.equal(on.deleted, 2);
});

const interventions: Readonly<Record<string, (on: Removals) => void>> = {
  "a user puts a hold on the StatefulSet": ({ world }) => world.annotate(set, ours({ hold: "true" })),
  "the StatefulSet wants the pod again": ({ world }) => void world.scale(set, 2),
  "the StatefulSet is deleted": ({ world }) => world.removeStatefulSet(set, "Foreground"),
  "another pod mounts one of the volumes": ({ world }) => {
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: names[1] } }];
    const spec = { containers: [{ name: "app", image: "app:1" }], volumes };
    world.store.create("pods", namespace, { metadata: { name: "reader" }, spec } as never);
  },
};

for (const [what, between] of Object.entries(interventions)) {
  test(`${what} after the mark: only the second read shows it, and no volume is deleted`, async () => {
    const on = await Removals.suspended();
    await on.remove(() => between(on));
    assert.equal(on.deleted, 0);
  });
}

test("the ledger keeps the time of a removal if one volume is deleted and the API server refuses to delete the other", async () => {
  const on = await Removals.suspended();
  on.interfere = ({ verb, given }) => {
    const { name = "" } = (given[1] ?? {}) as { readonly name?: string };
    if (verb !== "delete" || name !== names[1]) return;
    on.interfere = () => {};
    on.world.store.patch(claims, { namespace, name }, { metadata: { finalizers: [] } });
    on.world.store.delete(claims, { namespace, name }, {});
    on.world.store.create(claims, namespace, { metadata: { name } } as never);
  };
  await on.reconcile(gcSuspendedGroups);
  assert.ok(on.world.store.find(claims, { namespace, name: "data-group-a-1" })?.metadata.deletionTimestamp);
  const removedMs = on.timeline.nowMs();
  for (let round = 0; round < 30 && on.ledger.claims.length > 0; round++) {
    await on.goOn(10_000);
    await on.reconcile(gcSuspendedGroups);
  }
  const { claims: left, lastRemovalMs = 0 } = on.ledger;
  assert.deepEqual(left, []);
  assert.ok(lastRemovalMs >= removedMs - 1_000, `${lastRemovalMs}, and it was removed at ${removedMs}`);
});

test("a new process ends a dead process's claim after knowing it for ten seconds, and reconciles again by then", async () => {
  const on = await Removals.suspended({ hold: "true" });
  const stampMs = on.context.cluster.serverTimeMs() - 160_000;
  const anchor = { resource: "persistentvolumeclaims", name: names[0] ?? "", annotation: "sluice.dev/removal-claim" };
  const claim = { id: "left", kind: "volume", zone: "group-a", by: "gc-suspended-groups", anchor } as const;
  const rest = { members: [{ first: 1, last: 1 }], phase: "removing", terms: "asked", stampMs } as const;
  const lines = formatClaims([makeClaim({ ...claim, ...rest })]);
  on.world.annotate({ namespace, name: ledgerName(key.group) }, { "sluice.dev/claims": lines }, "leases");
  on.restart();
  const requeueAfterMs = (await on.reconcile(gcSuspendedGroups)) ?? Number.POSITIVE_INFINITY;
  assert.ok(requeueAfterMs <= 10_000, `${requeueAfterMs} ms`);
  assert.equal(on.ledger.claims.length, 1);
  await on.goOn(requeueAfterMs);
  await on.goOn(10_000);
  await on.reconcile(gcSuspendedGroups);
  assert.deepEqual(on.ledger.claims, []);
});

test("retain-pv keeps the volume that is bound to its claim, and changes no volume that is bound to another claim", async () => {
  for (const [boundTo, policy] of [
    ["own", "Retain"],
    ["another", "Delete"],
  ] as const) {
    const on = await Removals.suspended({ "retain-pv": "true" });
    const { store } = on.world;
    const { uid } = store.get(claims, { namespace, name: "data-group-a-1" }).metadata;
    const claimRef = { namespace, name: "data-group-a-1", uid: boundTo === "own" ? uid : "another" };
    const spec = { persistentVolumeReclaimPolicy: "Delete", claimRef, capacity: { storage: "1Gi" } };
    store.create("persistentvolumes", "", { metadata: { name: "pv-data" }, spec } as never);
    store.patch(claims, { namespace, name: "data-group-a-1" }, { spec: { volumeName: "pv-data" } } as never);
    await on.remove();
    const volume = store.get("persistentvolumes", { namespace: "", name: "pv-data" }) as unknown as {
      spec: typeof spec;
    };
    assert.equal(volume.spec.persistentVolumeReclaimPolicy, policy, `bound to ${boundTo}`);
    assert.equal(on.deleted, 2);
  }
});
