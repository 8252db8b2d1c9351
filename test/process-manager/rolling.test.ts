/**
 * A person marks three StatefulSets, and the processes of their pods restart one after the other: the shipped functions as
 * processes of their own, on a real API server, which asks one of them about evictions.
 */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { eventually } from "../controlplane/api.ts";
import { evict, type Presented, presentCertificate, registerWebhook } from "../support/drain-webhook.ts";
import { patienceMs } from "./pod.ts";
import { phaseKey, RestartStage, skipWithoutStage } from "./restart-stage.ts";

const namespace = "rolling";
const sets = ["db-zone-a", "db-zone-b", "db-zone-c"];
const budgets = `/apis/rollout-operator.grafana.com/v1/namespaces/${namespace}/zoneawarepoddisruptionbudgets`;

suite("processes that restart in their turn", { skip: skipWithoutStage }, () => {
  let stage: RestartStage;
  let certificate: Presented;
  before(async () => {
    certificate = await presentCertificate();
    stage = await RestartStage.set(namespace, sets.length);
    const selector = { matchLabels: { "rollout-group": "db" } };
    await stage.api.post(budgets, {
      ...{ apiVersion: "rollout-operator.grafana.com/v1", kind: "ZoneAwarePodDisruptionBudget" },
      ...{ metadata: { name: "db" }, spec: { maxUnavailable: 1, selector } },
    });
    const evictions = await stage.serve({ FUNCTION: "evaluate-eviction", ...certificate.settings });
    await evictions.ready();
    await registerWebhook(stage.api, namespace, "Mutating", { port: evictions.tlsPort, ca: certificate.ca });
    await stage.serve({ FUNCTION: "advance-process-restart" });
  });
  after(async () => {
    await stage?.close();
    await certificate?.remove();
  });

  test("each restarts once in the order of its StatefulSet, never two are down, and an eviction waits for the claim", async () => {
    const begun = (await stage.journal()).length;
    const annotations = { [phaseKey]: "schedule-rolling" };
    for (const set of sets) await stage.api.patch(stage.setPath(set), { metadata: { annotations } });
    await eventually("a claim", patienceMs, async () => ((await stage.claims()) ?? "") !== "" || undefined);
    const { code, message } = await evict(stage.api, namespace, "db-zone-c-0");
    assert.equal(code, 429, message);
    assert.match(message, /claimed for the restart of a process/);
    for (const set of sets) await stage.withoutPhase(`${set}-0`);
    const expected = sets.flatMap((set) => [`stop ${set}`, `start ${set}`]);
    assert.deepEqual((await stage.journal()).slice(begun), expected);
    assert.equal(await stage.claims(), "");
    for (const set of sets) {
      const { metadata } = await stage.api.get<{ readonly metadata: Metadata }>(stage.setPath(set));
      assert.equal(metadata.annotations?.[phaseKey], undefined, set);
    }
  });

  test("a new value of a trigger restarts each once in this order, and the same value, which is applied again, none", async () => {
    const begun = (await stage.journal()).length;
    await stage.trigger("2026-11-29", sets);
    for (const set of sets) await stage.withoutPhase(`${set}-0`);
    const expected = sets.flatMap((set) => [`stop ${set}`, `start ${set}`]);
    await stage.trigger("2026-11-29", sets);
    assert.deepEqual((await stage.journal()).slice(begun), expected);
    for (const set of sets) {
      const { metadata } = await stage.api.get<{ readonly metadata: Metadata }>(stage.setPath(set));
      assert.equal(metadata.annotations?.["sluice.dev/restart-trigger"], "2026-11-29", set);
      assert.equal(
        (await stage.read(`${set}-0`)).metadata.annotations?.["sluice.dev/restart-reason"],
        "trigger 2026-11-29",
      );
    }
  });
});
