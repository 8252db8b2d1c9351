/** How often a function reads a group in which nothing is suspended. Each read lists all volume claims of the namespace. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { gcSuspendedGroups } from "../../../../functions/gc-suspended-groups/function.ts";
import type { ReconcileResult } from "../../../../functions/shared/contract/definition.ts";
import { formatClaims, makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { suspendGroup } from "../../../../functions/suspend-group/function.ts";
import { Harness, key, namespace, played } from "../../shared/reconcile/harness.ts";

const pvcs = "persistentvolumeclaims";

class Triggered extends Harness {
  readonly #definition: typeof suspendGroup | typeof gcSuspendedGroups;

  constructor(definition: typeof suspendGroup | typeof gcSuspendedGroups) {
    super({ zones: ["a"], replicas: 1, volumes: ["data"] });
    this.#definition = definition;
  }

  /** Runs one reconcile. Resolves to whether it has read the volume claims. */
  async trigger(sweep = false): Promise<ReconcileResult & { readonly hasReconciled: boolean }> {
    const before = this.count(`list ${pvcs}`);
    const outcome = await played(this.timeline, this.#definition.reconcile(this.context, key, { sweep }));
    if (outcome.pendingActs !== undefined) await played(this.timeline, outcome.pendingActs);
    return { ...outcome, hasReconciled: this.count(`list ${pvcs}`) > before };
  }

  ask(): void {
    this.world.annotate({ namespace, name: "data-group-a-0" }, { "sluice.dev/suspend": "true" }, pvcs);
  }
}

for (const definition of [suspendGroup, gcSuspendedGroups]) {
  const { name } = definition;

  test(`${name} reads a group without suspended volumes once in 30 s, and serves events of that time at the next read`, async () => {
    const group = new Triggered(definition);
    assert.equal((await group.trigger()).hasReconciled, true);
    await group.goOn(10_000);
    const { hasReconciled, requeueAfterMs, absorbsEvents } = await group.trigger();
    assert.deepEqual([hasReconciled, absorbsEvents, Math.round((requeueAfterMs ?? 0) / 1_000)], [false, true, 20]);
    group.ask();
    assert.equal((await group.trigger(true)).hasReconciled, true, "a sweep always reads the group");
    assert.equal(
      (await group.trigger()).hasReconciled,
      true,
      "once it has found a request, it reads the group each time",
    );
    await group.goOn(31_000);
    assert.equal((await group.trigger()).hasReconciled, true);
  });

  test(`${name} does not wait if a suspension is requested, or if watches keep the group in memory`, async () => {
    const asked = new Triggered(definition);
    asked.ask();
    for (let triggers = 0; triggers < 3; triggers++) assert.equal((await asked.trigger()).hasReconciled, true);
    const watching = new Triggered(definition);
    const cache = await watching.watch();
    for (let triggers = 0; triggers < 2; triggers++) assert.equal((await watching.trigger()).hasReconciled, true);
    watching.ask();
    assert.equal((await watching.trigger()).hasReconciled, true);
    assert.notEqual(watching.guard, undefined, "the first trigger finds the new request");
    await cache.stop();
  });

  test(`${name} reads a group without suspended volumes at once if its ledger holds a claim of the function`, async () => {
    const group = new Triggered(definition);
    await group.run(true);
    await group.trigger();
    const claim = makeClaim({
      id: "one",
      kind: "volume",
      zone: "group-a",
      members: [{ first: 0, last: 0 }],
      by: name,
      stampMs: 0,
      phase: "removing",
      terms: "asked",
      anchor: { resource: pvcs, name: "data-group-a-0", annotation: "sluice.dev/removal-claim" },
    });
    group.writeLedger({ "sluice.dev/claims": formatClaims([claim]) });
    assert.equal((await group.trigger()).hasReconciled, false);
    // Another function of the process has read the ledger.
    await group.run(true);
    assert.equal((await group.trigger()).hasReconciled, true);
  });
}
