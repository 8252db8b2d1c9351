/** Sluice beside the real rollout-operator: it acts when the operator is gone, and hands the times of downscales back to it. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
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
import { Kubectl } from "../support/kubectl.ts";
import { type NotifiedScene, setNotifiedScene } from "../support/notified-scene.ts";
import { namedBy } from "../support/pod-names.ts";
import { play, playIn, Scene, skipWithoutControlPlane } from "../support/scene.ts";

const goneForMs = 30_000;
const image = "app:2";
const group = { pods: 20, maxUnavailable: 10 };
const lastDownscale = "grafana.com/last-downscale";
const betweenZones = "grafana.com/min-time-between-zones-downscale";

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
  concurrency: 4,
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

  /** Starts the operator on the group of a scene, with a pod as its Deployment makes it. `hostsFile`: names that it resolves. */
  async function startOperator(
    scene: Scene,
    { flags = [], hostsFile }: { readonly flags?: readonly string[]; readonly hostsFile?: string } = {},
  ) {
    const { api } = scene;
    const { namespace } = scene.group;
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
      ...flags,
    ];
    const file = join(stage.controlPlane.directory, `operator-${namespace}.log`);
    const plain = { file: peerBinary, args };
    const command = hostsFile === undefined ? plain : namedBy(hostsFile, peerBinary, args);
    const operator = launch(command.file, command.args, { output: { file } });
    scene.afterwards(async () => void (await operator.stop(10_000)));
    await eventually("the operator ready", 30_000, async () => {
      if (operator.end() !== undefined) throw new Error(await tail(file, 10));
      return (await fetch(`http://127.0.0.1:${port}/ready`)).ok || undefined;
    });
    return {
      /** Ends the process, and then its pod. Resolves to the moment before the pod was gone. */
      async leave(): Promise<number> {
        await operator.stop(10_000);
        const endedMs = Date.now();
        await api.delete(`${pods}/rollout-operator-0?gracePeriodSeconds=0`);
        return endedMs;
      },
    };
  }

  /** Types the commands of a chapter of the migration, or those of them that match, in one shell. */
  async function type(heading: string, namespace: string, wanted = /./): Promise<void> {
    const kubectl = await Kubectl.open(stage.controlPlane);
    const all = await kubectl.commandsOf("from-rollout-operator.md", heading);
    const lines = all.filter((line) => wanted.test(line)).map((line) => line.replace("-n mimir", `-n ${namespace}`));
    assert.notEqual(lines.length, 0, heading);
    await kubectl.shell(["set -e", ...lines].join("\n")).finally(() => kubectl.close());
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

  test("an operator that is scaled up again after the swap acts alone, from when Sluice has seen its pod until 30 s after it", async () => {
    await play(stage.controlPlane, "again", { zones: 2, pods: 1 }, async (scene) => {
      const { auditLog } = scene.controlPlane;
      const roll = async (to: string) => {
        await changeTemplate(scene.controlPlane, scene.group, to);
        await scene.waitForRollout(to, 120_000);
      };
      const server = await scene.serve();
      await roll("app:2");
      const operator = await startOperator(scene);
      const labels = { namespace: "again", pod: "rollout-operator-0" };
      await eventually("the operator seen", 60_000, async () =>
        (await server.metric("sluice_other_operator", labels)) === 1 ? true : undefined,
      );
      const stretch = { auditLog, from: await auditPosition(auditLog) };
      await roll("app:3");
      const goneMs = await operator.leave();
      await roll("app:4");
      assert.deepEqual(await actsIn("again", stretch, goneMs + goneForMs), []);
      assert.notDeepEqual(await actsIn("again", stretch, Number.POSITIVE_INFINITY), [], "Sluice rolls again");
    });
  });

  /** Starts the operator in the place of all servers, with their certificate. */
  async function replaceByOperator({ scene, ingesters, servers, proxy }: NotifiedScene, ...flags: readonly string[]) {
    for (const server of servers) {
      proxy.remove(server.tlsPort);
      await server.stop();
    }
    const { TLS_CERT_FILE = "", TLS_KEY_FILE = "" } = stage.certificate.settings;
    const hostsFile = join(stage.controlPlane.directory, `${scene.group.namespace}.hosts`);
    await writeFile(hostsFile, `127.0.0.1 localhost\n${ingesters.hosts()}`);
    const tlsPort = await freePort();
    const tls = [
      ...["-server-tls.enabled", "-server-tls.port", String(tlsPort), "-server-tls.self-signed-cert.enabled=false"],
      ...[
        "-server-tls.cert-file",
        TLS_CERT_FILE,
        "-server-tls.key-file",
        TLS_KEY_FILE,
        "-webhooks.update-ca-bundle=false",
      ],
    ];
    const { leave } = await startOperator(scene, { flags: [...tls, ...flags], hostsFile });
    proxy.add(tlsPort);
    return async () => {
      proxy.remove(tlsPort);
      await leave();
    };
  }

  test("after Go back the operator refuses a prepared downscale for the rest of the time between zones, and no longer", async () => {
    const options = {
      ...{ zones: 2, pods: 2, settings: { WRITE_LAST_DOWNSCALE: "true" } },
      labels: { [betweenZones]: "1h" },
      annotations: { "grafana.com/prepare-downscale-http-path": "ingester/prepare-shutdown" },
    };
    const notified = await setNotifiedScene(stage, "returned", { ...options, asked: 2 });
    const { scene, ingesters } = notified;
    await playIn(scene, options, async () => {
      const [one = "", other = ""] = scene.group.statefulSets;
      /** Resolves to why it is refused; undefined if it is allowed. */
      const shrink = (name: string): Promise<string | undefined> =>
        scene.api.patch(scene.statefulSetPath(name), { spec: { replicas: 1 } }).then(
          () => undefined,
          ({ message }: Error) => message,
        );
      await type("6\\. Say when zones were made smaller", "returned");
      await eventually("the first zone made smaller", 30_000, async () =>
        (await shrink(one)) === undefined ? true : undefined,
      );
      const writtenMs = await eventually("the time written", 100_000, async () => {
        const { annotations } = (await scene.statefulSet(one)).metadata;
        const ms = Date.parse(annotations?.[lastDownscale] ?? "");
        return ms > Date.parse("2020-01-01T00:00:00Z") ? ms : undefined;
      });
      // As an operator with a zone tracker has left it.
      const stale = JSON.stringify({ lastDownscaled: "2020-01-01T00:00:00Z" });
      const metadata = { name: "rollout-operator-zone-tracker" };
      const configMap = { metadata, data: { [one]: stale, [other]: stale } };
      await scene.api.post("/api/v1/namespaces/returned/configmaps", configMap);
      await type("1\\. Have the times written", "returned", /^(TIMES=|.* patch configmap )/);

      const time = new Date(writtenMs).toISOString().replace("T", " ").replace(".000Z", " +0000 UTC");
      const rest = `because statefulset ${one} was downscaled at ${time} and is labelled to wait 1h0m0s between`;
      const leave = await replaceByOperator(notified, "-use-zone-tracker");
      assert.ok((await shrink(other))?.includes(rest), "by the zone tracker");
      await leave();
      await replaceByOperator(notified);
      assert.ok((await shrink(other))?.includes(rest), "by the annotation");
      const seconds = Math.ceil((Date.now() - writtenMs) / 1_000) + 8;
      await scene.api.patch(scene.statefulSetPath(one), { metadata: { labels: { [betweenZones]: `${seconds}s` } } });
      const allowed = await eventually("the second zone made smaller", 30_000, async () => {
        const askedMs = Date.now();
        return (await shrink(other)) === undefined ? { askedMs, answeredMs: Date.now() } : undefined;
      });
      const dueMs = writtenMs + seconds * 1_000;
      assert.ok(allowed.answeredMs >= dueMs, `${dueMs - allowed.answeredMs} ms before the rest was over`);
      assert.ok(allowed.askedMs < dueMs + 5_000, `${allowed.askedMs - dueMs} ms after the rest was over`);
      // The operator writes the StatefulSet during its own update, so that the API server asks it again.
      const calledPods = new Set(ingesters.calls.filter(({ method }) => method === "POST").map(({ pod }) => pod));
      assert.deepEqual([...calledPods], [`${one}-1`, `${other}-1`]);
    });
  });

  test("with OTHER_OPERATOR=ignore Sluice acts while the operator runs, and the audit log shows it", async () => {
    const scene = await Scene.set(stage.controlPlane, "ignored", group);
    try {
      const { auditLog } = scene.controlPlane;
      const stretch = { auditLog, from: await auditPosition(auditLog) };
      await startOperator(scene);
      await scene.serve({ OTHER_OPERATOR: "ignore" });
      await changeTemplate(scene.controlPlane, scene.group, image);
      await eventually("an act beside the operator", 60_000, async () => {
        const acts = await actsIn("ignored", stretch, Date.now());
        return acts.length > 0 || undefined;
      });
    } finally {
      await scene.close();
    }
  });
});
