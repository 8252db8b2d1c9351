/** Sluice and the real rollout-operator start together on one group: Sluice acts when the operator is gone. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { type AuditEntry, auditPosition, readAudit } from "../controlplane/audit.ts";
import { ensurePeer } from "../controlplane/controlplane.ts";
import { changeTemplate, groupPods } from "../controlplane/fixtures.ts";
import { freePort } from "../controlplane/ports.ts";
import { launch, tail } from "../controlplane/processes.ts";
import { addNodes, drainNodes } from "../support/drain.ts";
import { registerWebhook } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { play, Scene, skipWithoutControlPlane } from "../support/scene.ts";

const goneForMs = 30_000;
const image = "app:2";
const group = { pods: 20, maxUnavailable: 10 };

/** Sluice's writes in a namespace and outside of it, up to a moment, except Events, which it sends while it stands by. */
async function actsIn(namespace: string, { auditLog, from }: Stretch, untilMs: number): Promise<AuditEntry[]> {
  const acts = [];
  for await (const entry of readAudit(auditLog, { from }, () => {})) {
    const isWrite = !["get", "list", "watch"].includes(entry.verb) && entry.resource !== "events";
    const isHere = entry.namespace === namespace || entry.namespace === undefined;
    if (entry.userAgent.startsWith("sluice/") && isWrite && isHere && entry.at < untilMs) acts.push(entry);
  }
  return acts;
}

/** An audit log from a byte on. */
interface Stretch {
  readonly auditLog: string;
  readonly from: number;
}

describe("beside rollout-operator, on a real control plane", {
  skip: await skipWithoutControlPlane(),
  concurrency: 2,
}, () => {
  let stage: EvictionStage;
  let peerBinary: string;

  before(async () => {
    peerBinary = (await ensurePeer(console.error)).binary;
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  /** Starts the operator on the group of a scene, with a pod as its Deployment makes it. */
  async function startOperator({ api, group: { namespace } }: Scene) {
    const pods = `/api/v1/namespaces/${namespace}/pods`;
    const labels = { "app.kubernetes.io/name": "rollout-operator" };
    await api.post(pods, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "rollout-operator-0", labels },
      spec: {
        nodeName: "node-1",
        containers: [{ name: "operator", image: "registry:5000/grafana/rollout-operator:v1" }],
      },
    });
    const port = await freePort();
    const args = [
      ...["-kubernetes.api-url", stage.controlPlane.url, "-kubernetes.config-file", stage.controlPlane.kubeconfig],
      ...["-kubernetes.namespace", namespace, "-server.port", String(port), "-reconcile.interval", "100ms"],
    ];
    const file = join(stage.controlPlane.directory, `operator-${namespace}.log`);
    const operator = launch(peerBinary, args, { output: { file } });
    await eventually("the operator ready", 30_000, async () => {
      if (operator.end() !== undefined) throw new Error(await tail(file, 10));
      return (await fetch(`http://127.0.0.1:${port}/ready`)).ok || undefined;
    });
    return {
      stop: () => operator.stop(10_000),
      /** Ends the process, and then its pod. Resolves to the moment before the pod was gone. */
      async leave(): Promise<number> {
        await operator.stop(10_000);
        const endedMs = Date.now();
        await api.delete(`${pods}/rollout-operator-0?gracePeriodSeconds=0`);
        return endedMs;
      },
    };
  }

  test("over a rollout and a drain Sluice writes nothing until the operator's pod has been gone for 30 s, then both end", async () => {
    const options = { ...group, nodesPerZone: 2, zoneBudget: { maxUnavailable: 10 } };
    await play(stage.controlPlane, "together", options, async (scene) => {
      const { api, controlPlane } = scene;
      const { auditLog } = controlPlane;
      const stretch = { auditLog, from: await auditPosition(auditLog) };
      const [operator, server] = await Promise.all([
        startOperator(scene),
        scene.serve({ ...stage.certificate.settings, EVICTION_WAIT: "0" }),
      ]);
      await server.ready();
      await registerWebhook(api, "together", "Mutating", { port: server.tlsPort, ca: stage.certificate.ca });
      await changeTemplate(controlPlane, scene.group, image);
      const nodes = await scene.nodesOf("zone-c");
      await addNodes(api, scene.group, "zone-c", 1, nodes.length + 1);
      const drained = drainNodes(controlPlane, api, nodes, 150_000);
      const event = await scene.waitForEvent("StandingBy");
      assert.match(event.message, /^other-operator: rollout-operator runs as pod together\/rollout-operator-0,/);
      assert.equal(
        await server.metric("sluice_other_operator", { namespace: "together", pod: "rollout-operator-0" }),
        1,
      );
      await eventually("pods rolled by the operator", 60_000, async () => {
        const pods = await groupPods(controlPlane, scene.group);
        return pods.some(({ spec }) => spec.containers[0]?.image === image) || undefined;
      });
      const goneMs = await operator.leave();
      const { gaveUp, stderr } = await drained;
      assert.equal(gaveUp, 0, stderr);
      assert.match(stderr, /will retry after 5s.*rollout-operator runs as pod together\/rollout-operator-0/);
      await scene.waitForRollout(image, 120_000);
      assert.deepEqual(await actsIn("together", stretch, goneMs + goneForMs), []);
      const acts = await actsIn("together", stretch, Number.POSITIVE_INFINITY);
      assert.ok(
        acts.some(({ verb, resource }) => verb === "delete" && resource === "pods"),
        "Sluice ended the rollout",
      );
    });
  });

  test("with OTHER_OPERATOR=ignore Sluice acts while the operator runs, and the audit log shows it", async () => {
    const scene = await Scene.set(stage.controlPlane, "ignored", group);
    try {
      const { auditLog } = scene.controlPlane;
      const stretch = { auditLog, from: await auditPosition(auditLog) };
      const operator = await startOperator(scene);
      await scene.serve({ OTHER_OPERATOR: "ignore" });
      await changeTemplate(scene.controlPlane, scene.group, image);
      await eventually("an act beside the operator", 60_000, async () => {
        const acts = await actsIn("ignored", stretch, Date.now());
        return acts.length > 0 || undefined;
      });
      await operator.stop();
    } finally {
      await scene.close();
    }
  });
});
