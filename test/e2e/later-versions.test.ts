import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { changeTemplate } from "../controlplane/fixtures.ts";
import { evict, guardEvictions } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";

/** No event reports a change of a Lease: a sweep finds it, and here one comes every second. */
const settings = { SWEEP_INTERVAL: "1s" };
const zoneBudget = { maxUnavailable: 1 };
const rollout = "advance-zone-rollout";

interface Lease {
  readonly metadata: { readonly resourceVersion: string; readonly annotations: Readonly<Record<string, string>> };
}

/** Writes or removes annotations of the ledger, as a later version would. Resolves to the Lease as it is then. */
function annotate({ api, ledgerPath }: Scene, annotations: Readonly<Record<string, string | null>>): Promise<Lease> {
  return api.patch<Lease>(ledgerPath, { metadata: { annotations } });
}

/** Resolves when the rollout has waited behind the guard in this many further reconciles. */
async function waitForReconciles(server: Server, guard: string, count: number): Promise<void> {
  const labels = { function: rollout, guard };
  const from = await server.metric("sluice_verdicts_total", labels);
  await eventually(`${count} more passes behind ${guard}`, 30_000, async () =>
    (await server.metric("sluice_verdicts_total", labels)) >= from + count ? true : undefined,
  );
}

/** Requests the eviction of the first pod of each zone once. Each must be refused with 429, with the guard and its reason. */
async function assertRefused(scene: Scene, server: Server, guard: string, why: RegExp): Promise<void> {
  const { namespace, statefulSets } = scene.group;
  const labels = { function: "evaluate-eviction", guard };
  const from = await server.metric("sluice_verdicts_total", labels);
  for (const zone of statefulSets) {
    const { code, message, causes } = await evict(scene.api, namespace, `${zone}-0`);
    assert.deepEqual({ code, causes }, { code: 429, causes: ["DisruptionBudget"] }, message);
    assert.match(message, why);
  }
  // The page with the metrics is rendered twice a second.
  await eventually(`${statefulSets.length} evictions refused behind ${guard}`, 5_000, async () =>
    (await server.metric("sluice_verdicts_total", labels)) === from + statefulSets.length ? true : undefined,
  );
}

describe("annotations of a later version, on a real control plane", {
  skip: await skipWithoutControlPlane(),
  concurrency: 2,
}, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  test("ledger-unreadable: under a ledger of another format no pod goes, and no function writes it, until its format is corrected", async () => {
    const options = { pods: 2, zoneBudget };
    const { takings } = await play(stage.controlPlane, "reformatted", options, async (scene) => {
      const server = await guardEvictions(scene, stage.certificate, { settings });
      // The server has a copy of the ledger from when it could be read, but cannot write decisions that rest on that.
      const later = await annotate(scene, { "sluice.dev/format": "2" });
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      await waitForReconciles(server, "ledger-unreadable", 3);
      await assertRefused(scene, server, "ledger-unreadable", /Lease sluice-reformatted .*its format is "2"/);
      await waitForReconciles(server, "ledger-unreadable", 1);
      const logged = server.log.filter(({ guard, function: by }) => guard === "ledger-unreadable" && by === rollout);
      assert.equal(logged.length, 1, "it is reported once, however often it is read");
      assert.match(logged[0]?.msg ?? "", /its format is "2".+leave the Lease as it is/);
      assert.deepEqual(await scene.api.get<Lease>(scene.ledgerPath), later);
      assert.deepEqual(scene.observer.takings, []);

      await annotate(scene, { "sluice.dev/format": "1" });
      await scene.waitForRollout("app:2");
      await eventually("an eviction allowed", 10_000, async () =>
        (await evict(scene.api, "reformatted", "reformatted-zone-b-0")).code === 201 ? true : undefined,
      );
    });
    assert.equal(takings.length, 3 * 2 + 1, "each pod is rolled once, and one is evicted");
  });

  test("zone-claim-unknown: a claim of an unknown kind blocks every zone, and stays byte for byte while the ledger is written", async () => {
    // Not this version's form: it has spaces, a number that this version cannot hold, and unknown fields.
    const claim = `{ "zone":"foretold-zone-b" ,"kind":"later", "id":"later-1", "by":"later-function", "turns":12345678901234567890, "of":{"b":1,"a":[]} }`;
    const options = { pods: 2, readyAfterMs: 1_500, zoneBudget };
    const { takings } = await play(stage.controlPlane, "foretold", options, async (scene) => {
      const server = await guardEvictions(scene, stage.certificate, { settings });
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      await scene.waitForTakings(1);
      const claimed = await annotate(scene, { "sluice.dev/claims": claim });
      assert.deepEqual(
        Object.keys(reserved(claimed)),
        ["foretold-zone-a"],
        "a pod is terminating when the claim comes",
      );
      // The pod comes back, and its reservation settles: the ledger is written beside the claim.
      const settled = await eventually("the reservation settled", 30_000, async () => {
        const lease = await scene.api.get<Lease>(scene.ledgerPath);
        return Object.keys(reserved(lease)).length === 0 ? lease : undefined;
      });
      assert.notEqual(settled.metadata.resourceVersion, claimed.metadata.resourceVersion);
      const { zone, sentence: text } = await scene.waitForGuard("zone-claim-unknown");
      assert.equal(zone, "foretold-zone-b");
      assert.match(text, /^foretold-zone-b is claimed by later-function for "later", which this version of Sluice/);
      await waitForReconciles(server, "zone-claim-unknown", 3);
      await assertRefused(scene, server, "zone-claim-unknown", /zone-b is claimed by later-function for "later"/);
      const ledger = await scene.api.get<Lease>(scene.ledgerPath);
      assert.equal(ledger.metadata.annotations["sluice.dev/claims"], claim);
      assert.equal(scene.observer.takings.length, 1, "no pod has gone since the claim");

      await annotate(scene, { "sluice.dev/claims": null });
      await scene.waitForRollout("app:2");
      await eventually("an eviction allowed", 10_000, async () =>
        (await evict(scene.api, "foretold", "foretold-zone-b-0")).code === 201 ? true : undefined,
      );
    });
    assert.equal(takings.length, 3 * 2 + 1, "each pod is rolled once, and one is evicted");
  });
});

function reserved({ metadata: { annotations } }: Lease): object {
  return JSON.parse(annotations["sluice.dev/reservations"] ?? "{}") as object;
}
