/** The metrics and alerts of the overlay `direct` on the real API server, while its functions are at zero. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate } from "../controlplane/fixtures.ts";
import { askedBy, isWebhook, isWorkload, kubeconfigOf, workloadOf } from "../support/installed.ts";
import { type Built, isDefinition, Kubectl } from "../support/kubectl.ts";
import { changed, post, tick } from "../support/posted.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";
import { activeAlerts, ensureAlerting, type Scrape } from "./alerting.ts";

const program = await ensureAlerting(console.error).catch((error: Error) => error);
if (program instanceof Error && process.env.CI === "true") throw program;

const reconciled = "rollout_operator_last_successful_group_reconcile_timestamp_seconds";
const progress = "sluice_group_last_progress_timestamp_seconds";
/** A LIST of the ledgers serves for ten seconds; a little more for two clocks. */
const nextReadMs = 11_000;

/** What each replica answers now, as Prometheus has it by the rendered ServiceMonitor. */
async function scrape(replicas: readonly Server[], namespace: string): Promise<Scrape[]> {
  return Promise.all(
    replicas.map(async ({ url }, index) => ({
      atMs: Date.now(),
      labels: { namespace, job: "rollout-operator", pod: `sluice-admission-${index}` },
      text: await (await fetch(`${url}/metrics`)).text(),
    })),
  );
}

/** The same answers every 30 s for so long: what Prometheus has of a group where nothing changes. */
function repeated(scrapes: readonly Scrape[], minutes: number): Scrape[] {
  const times = Array.from({ length: 2 * minutes + 1 }, (_, index) => index * 30_000);
  return times.flatMap((laterMs) => scrapes.map((one) => ({ ...one, atMs: one.atMs + laterMs })));
}

/** The value of the one series with these labels; undefined where there is none. */
function valueIn({ text }: Scrape, name: string, labels: Readonly<Record<string, string>>): number | undefined {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  const line = text.split("\n").find((one) => one.startsWith(`${name}{`) && pairs.every((pair) => one.includes(pair)));
  return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(" ") + 1));
}

suite("metrics while functions are at zero, on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  const namespace = "tempo";
  const skip = program instanceof Error ? `no alerting rules: ${program.message}` : false;
  let controlPlane: ControlPlane;
  let kubectl: Kubectl;
  let objects: Built[];
  before(async () => {
    controlPlane = await startControlPlane();
    kubectl = await Kubectl.open(controlPlane);
    objects = await kubectl.buildIn(namespace, "direct");
    await kubectl.apply(objects.filter(isDefinition));
    await kubectl.waitForDefinitions();
    await kubectl.run("create", "namespace", namespace);
    const isForeign = ({ apiVersion }: Built) => apiVersion.includes("knative.dev/");
    await kubectl.apply(objects.filter((object) => !isForeign(object) && !isWebhook(object) && !isWorkload(object)));
  });
  after(async () => {
    await controlPlane?.stop();
    await kubectl?.close();
  });

  const start = async (scene: Scene, workload: string, free: Readonly<Record<string, string>>) => {
    const { account, settings } = workloadOf(objects, workload);
    const kubeconfig = await kubeconfigOf(controlPlane, scene.api, namespace, account);
    const server = await scene.serve({ ...settings, ...free }, { kubeconfig });
    await server.ready();
    return server;
  };
  const group = { namespace, rollout_group: namespace };
  const by = { function: "advance-zone-rollout" };
  const times = [
    [reconciled, group],
    [progress, group],
  ] as const;
  const alertsOf = async (scrapes: readonly Scrape[]) => {
    assert.ok(!(program instanceof Error));
    return activeAlerts(program, scrapes, namespace);
  };

  /** The function, triggered from zero, makes the ledger and is ended. */
  const rest = async (scene: Scene) => {
    const roller = await start(scene, "advance-zone-rollout", {});
    assert.equal(await post(roller, tick), 204);
    await scene.waitForOldLedger(roller);
    await roller.stop();
  };

  /** The function, triggered from zero, takes what the budget lets go, and is ended. Resolves to the zone that it waits for. */
  const getStuck = async (scene: Scene): Promise<string> => {
    const roller = await start(scene, "advance-zone-rollout", {});
    scene.observer.listen((kind, _type, name) => void post(roller, changed(kind, namespace, name)).catch(() => {}));
    await changeTemplate(controlPlane, scene.group, "app:broken");
    const { zone } = await scene.waitForGuard("budget");
    await roller.stop();
    return zone;
  };

  test("alerts report a rollout that stands still, and nothing else", { skip }, async (context) => {
    const from = await auditPosition(controlPlane.auditLog);
    await play(controlPlane, namespace, { zones: 3, pods: 3, maxUnavailable: 2 }, async (scene) => {
      // The certificate is not what is tested here.
      const alone = { PORT: "0", TLS_PORT: "off" };
      const replicas = [await start(scene, "sluice-admission", alone), await start(scene, "sluice-admission", alone)];
      await rest(scene);
      await delay(nextReadMs);
      const atRest = await scrape(replicas, namespace);
      for (const one of atRest) {
        for (const [name, labels] of times) {
          const age = one.atMs / 1000 - (valueIn(one, name, labels) ?? 0);
          assert.ok(age < 10, `${name} is of ${age} s ago, with the function at zero for longer`);
        }
      }
      assert.deepEqual(await alertsOf(atRest), [], "nothing is wrong, and nothing has to be done");

      const zone = await getStuck(scene);
      const [, zoneB = ""] = scene.group.statefulSets;
      await controlPlane.kubelet.breakPod(namespace, `${zoneB}-1`);
      // The roller has ended, so that it does not write the ledger any more.
      const ledger = await scene.api.get<{ metadata: { annotations: Record<string, string> } }>(scene.ledgerPath);
      const { since, at } = JSON.parse(ledger.metadata.annotations["sluice.dev/verdicts"] ?? "")[by.function];
      const standing = await eventually("the broken pod and the last verdict in the metrics", 30_000, async () => {
        const seen = await scrape(replicas, namespace);
        const isSeen = (one: Scrape) =>
          valueIn(one, "sluice_group_pods_not_ready", { ...group, zone: zoneB }) === 1 &&
          valueIn(one, reconciled, group) === at / 1000;
        return seen.every(isSeen) ? seen : undefined;
      });
      for (const one of standing) {
        const waits = { ...group, ...by, guard: "budget", zone };
        assert.equal(valueIn(one, "sluice_waiting_since_timestamp_seconds", waits), since / 1000);
        assert.equal(valueIn(one, "sluice_group_pods_not_ready", { ...group, zone }), 2);
        assert.equal(valueIn(one, "sluice_group_outdated_pods", { ...group, zone: zoneB }), 3);
        assert.equal(valueIn(one, "sluice_group_reservations", { ...group, ...by }), 2);
      }

      await delay(nextReadMs);
      const later = await scrape(replicas, namespace);
      for (const [index, one] of later.entries()) {
        for (const [name, labels] of times)
          assert.equal(valueIn(one, name, labels), valueIn(standing[index] as Scrape, name, labels), name);
      }
      const soon = await alertsOf(repeated(later, 9));
      assert.deepEqual(soon, [], "for nine minutes that is a pod that takes long");
      const alerts = await alertsOf(repeated(later, 40));
      context.diagnostic(JSON.stringify(alerts));
      const firing = alerts.map(({ name, state, labels }) => [name, state, labels.namespace, labels.rollout_group]);
      assert.deepEqual(firing, [
        ["RolloutOperatorNotReconciling", "firing", namespace, namespace],
        ["SluiceRolloutStuck", "firing", namespace, namespace],
      ]);
      for (const { annotations } of alerts) {
        const pattern = `${by.function} has waited since \\d{4}-.* UTC: guard budget, zone ${zone}\\. First: kubectl sluice why`;
        assert.match(annotations.description ?? "", new RegExp(pattern));
      }
    });
    const { asked, forbidden } = await askedBy(controlPlane, from, namespace, "sluice-admission");
    assert.deepEqual(forbidden, []);
    assert.ok(asked.includes("list leases"), asked.join(", "));
  });
});
