import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Api } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate, createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { Observer } from "../support/observer.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";

const zones = 3;
const pods = 20;
const budget = 5;
const readyAfterMs = 1_000;

describe("a rollout on a real control plane", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;

  before(async () => {
    controlPlane = await startControlPlane();
  });

  after(() => controlPlane?.stop());

  test("three zones of twenty pods are rolled with never more than five down and never two zones", async (context) => {
    const options = { zones, pods, maxUnavailable: budget, readyAfterMs };
    const verdict = await play(controlPlane, "large", options, async (scene) => {
      const server = await scene.serve();
      await scene.waitForOldLedger(server);
      const from = await auditPosition(controlPlane.auditLog);
      const startedMs = performance.now();
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      const tookMs = performance.now() - startedMs;
      await scene.waitForGuard("done");
      // The API server logs a request just after it has answered it.
      await delay(500);
      const requests = await scene.requests(from);
      const moments = await momentsOfReturn(controlPlane.auditLog, from);
      // A deletion for each pod. For each moment at which some come back, a read of the StatefulSet and two writes of the
      // ledger.
      // For each zone an Event, a reconcile before and after, and a status and two verdicts, again after a conflict.
      // And every 30 s two LISTs of rollout-operator's pods.
      const mostRequests = zones * pods + 3 * moments + 9 * zones + 2 * Math.ceil(tookMs / 30_000);
      const limitMs = zones * Math.ceil(pods / budget) * readyAfterMs;
      const perPod = (requests.length / (zones * pods)).toFixed(2);
      context.diagnostic(`API requests per pod: ${perPod}, ${JSON.stringify(countOf(requests))}`);
      context.diagnostic(`pods came back at ${moments} moments`);
      context.diagnostic(`time / limit: ${(tookMs / limitMs).toFixed(2)} (${(tookMs / 1_000).toFixed(1)} s)`);
      assert.ok(
        requests.length <= mostRequests,
        `${requests.length} API requests, of which ${mostRequests} are enough`,
      );
    });
    assert.equal(verdict.takings.length, zones * pods, "every pod goes once");
  });

  test("the observer detects pods that another client deletes out of turn", async () => {
    const group = await createGroup(controlPlane, { name: "watched", namespace: "watched", zones: 2, pods: 2 });
    await waitForGroupReady(controlPlane, group);
    const observer = await Observer.start(controlPlane, group.namespace);
    try {
      const api = await Api.open(controlPlane, { userAgent: "sluice-test-vandal" });
      for (const name of ["watched-zone-a-0", "watched-zone-a-1", "watched-zone-b-0"]) {
        await api.delete(`/api/v1/namespaces/${group.namespace}/pods/${name}`);
      }
      await api.close();
      const { violations } = await observer.verdict();
      assert.equal(violations.length, 2, violations.join("; "));
      assert.match(violations[0] ?? "", /watched-zone-a-1 was deleted as the 2th pod down/);
      assert.match(
        violations[1] ?? "",
        /watched-zone-b-0 was deleted while watched-zone-a-[01], watched-zone-a-[01] was not/,
      );
    } finally {
      await observer.close();
    }
  });
});

/**
 * Sluice gathers events of a group for 20 ms, and then decides and writes: pods that come back in this time may share a
 * reconcile.
 */
const intervalMs = 100;

/** How often pods came back: those that do so together count once. On a busy machine the pods of a batch come one by one. */
async function momentsOfReturn(auditLog: string, from: number): Promise<number> {
  const times: number[] = [];
  for await (const { userAgent, resource, verb, at, tookMs } of readAudit(auditLog, { from }, () => {}))
    if (userAgent.startsWith("sluice-test-kubelet") && verb === "patch" && resource === "pods/status")
      times.push(at + tookMs);
  let moments = 0;
  let untilMs = Number.NEGATIVE_INFINITY;
  for (const atMs of times.sort((a, b) => a - b)) {
    if (atMs < untilMs) continue;
    moments++;
    untilMs = atMs + intervalMs;
  }
  return moments;
}

/** The number of requests for each verb and resource. */
function countOf(requests: readonly { verb: string; resource: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { verb, resource } of requests) {
    const name = `${verb} ${resource}`;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}
