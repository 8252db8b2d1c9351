/** The acts of others while the pods of a downscale are being told, on a real control plane with real ingesters. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, test } from "node:test";
import { Api, ApiError, eventually } from "../controlplane/api.ts";
import { createGroup, type GroupOptions, groupManifests, waitForGroupReady } from "../controlplane/fixtures.ts";
import { runKubectl } from "../support/drain.ts";
import { evict, registerWebhook } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { type NotifiedScene, setNotifiedScene, shutdownPath } from "../support/notified-scene.ts";
import { refuseScaling } from "../support/refused-scaling.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import type { LogLine } from "../support/server.ts";

const namespace = "interrupted";
const sets = `/apis/apps/v1/namespaces/${namespace}/statefulsets`;
const labels = { "grafana.com/prepare-downscale": "true" };
const slow = { slowMs: 4_000 };

type Output = Awaited<ReturnType<typeof runKubectl>>;

describe("while pods are being told", { skip: await skipWithoutControlPlane(), concurrency: 8 }, () => {
  let stage: EvictionStage;
  let notified: NotifiedScene;
  let api: Api;

  before(async () => {
    stage = await startEvictionStage();
    notified = await setNotifiedScene(stage, namespace, {
      zones: 1,
      pods: 1,
      asked: 2,
      settings: { LOG_LEVEL: "debug" },
    });
    api = await Api.open(stage.controlPlane, { userAgent: "sluice-test-interrupted" });
    const { ca } = stage.certificate;
    await registerWebhook(api, namespace, "Mutating", { port: notified.proxy.port, ca });
  });

  after(async () => {
    await api?.close();
    await notified?.scene.close();
    await stage?.stop();
  });

  const kubectl = (...args: string[]) => runKubectl(stage.controlPlane, "-n", namespace, ...args);
  const optionsOf = (name: string): GroupOptions => {
    const annotations = {
      "grafana.com/prepare-downscale-http-path": shutdownPath,
      "grafana.com/prepare-downscale-http-port": String(notified.ingesters.port),
    };
    return { name, namespace, zones: 2, pods: 3, labels, annotations };
  };
  /** Two zones of three pods, without any budget. */
  const zonesOf = async (name: string): Promise<readonly [string, string]> => {
    const group = await createGroup(stage.controlPlane, optionsOf(name));
    await waitForGroupReady(stage.controlPlane, group);
    await waitForOldLedger(name);
    return group.statefulSets as [string, string];
  };
  /** A group about which no process is in doubt (rule R4): each of them reconciles it as its pods come. */
  const waitForOldLedger = (name: string) =>
    eventually("the ledger old", 60_000, async () => {
      const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/sluice-${name}`;
      const { metadata } = await api.get<{ metadata: { creationTimestamp: string } }>(path);
      return Date.now() - Date.parse(metadata.creationTimestamp) > 15_000 ? true : undefined;
    });
  const scale = (name: string, replicas: number, ...args: string[]): Promise<Output> =>
    kubectl("scale", "statefulset", name, `--replicas=${replicas}`, ...args);
  const callsOf = (name: string) =>
    notified.ingesters.calls.filter(({ pod }) => pod.startsWith(name)).map(({ method, pod }) => `${method} ${pod}`);
  /** From then on it answers other requests at once. */
  const waitUntilAsked = async (pod: string) => {
    await eventually(`${pod} asked`, 20_000, async () =>
      notified.ingesters.arrivals.some((arrival) => arrival.pod === pod) ? true : undefined,
    );
    notified.ingesters.behave(pod, "answer");
  };
  const replicasOf = async (name: string) =>
    (await api.get<{ spec: { replicas: number } }>(`${sets}/${name}`)).spec.replicas;

  test("no drain takes a told pod, even if no budget selects it; it takes the pod's siblings", async () => {
    const [zone] = await zonesOf("unbudgeted");
    notified.ingesters.behave(`${zone}-2`, slow);
    const scaling = scale(zone, 2);
    await waitUntilAsked(`${zone}-2`);
    const { code, causes, message } = await evict(api, namespace, `${zone}-2`);
    assert.deepEqual([code, causes], [429, ["DisruptionBudget"]], message);
    assert.match(message, /claimed for a scale-down \(preparing\)/);
    assert.equal((await evict(api, namespace, `${zone}-0`)).code, 201);
    assert.equal((await scaling).code, 0, (await scaling).stderr);
  });

  test("if a StatefulSet is deleted and recreated, the API server asks about the new one, and its pods are told again", async () => {
    const [zone] = await zonesOf("again");
    notified.ingesters.behave(`${zone}-2`, slow);
    const scaling = scale(zone, 2);
    await waitUntilAsked(`${zone}-2`);
    await api.delete(`${sets}/${zone}`, { propagationPolicy: "Orphan" });
    const [manifest] = groupManifests(optionsOf("again"));
    await eventually("it made again", 10_000, () => api.post(sets, manifest).catch(() => undefined));
    const { code, stderr } = await scaling;
    assert.equal(code, 0, stderr);
    assert.deepEqual(callsOf(zone), [`POST ${zone}-2`, `DELETE ${zone}-2`, `POST ${zone}-2`]);
    assert.equal(await replicasOf(zone), 2);
  });

  test("if a user changes the StatefulSet, the API server asks again, and no pod is told twice", async () => {
    const [zone] = await zonesOf("changed");
    notified.ingesters.behave(`${zone}-2`, slow);
    const scaling = scale(zone, 2);
    await waitUntilAsked(`${zone}-2`);
    await kubectl("annotate", "statefulset", zone, "changed=true");
    const { code, stderr } = await scaling;
    assert.equal(code, 0, stderr);
    assert.deepEqual(callsOf(zone), [`POST ${zone}-2`]);
    const isReview = (line: LogLine) => line.function === "prepare-downscale" && line.object === zone;
    const reviews = notified.servers.flatMap(({ log }) => log.filter(isReview));
    assert.ok(reviews.length >= 2, "the API server asked again");
  });

  test("of two zones that ask at the same moment one is allowed, and the pods of the other receive nothing", async () => {
    const zones = await zonesOf("both");
    // One kubectl may start seconds after the other: the first downscale is not over before that.
    for (const zone of zones) notified.ingesters.behave(`${zone}-2`, slow);
    const outputs = await Promise.all(zones.map((zone) => scale(zone, 2)));
    assert.deepEqual(outputs.map(({ code }) => code).sort(), [0, 1], outputs.map(({ stderr }) => stderr).join());
    const [winner = "", loser = ""] = outputs[0]?.code === 0 ? zones : zones.toReversed();
    assert.deepEqual([callsOf(winner), callsOf(loser)], [[`POST ${winner}-2`], []]);
    assert.deepEqual([await replicasOf(winner), await replicasOf(loser)], [2, 3]);
  });

  test("if a policy refuses after our webhook, and no further request comes, the pods receive within 100 s that they stay", async (context) => {
    const [zone, other] = await zonesOf("refused");
    await refuseScaling(api, namespace, zone);
    const { code, stderr } = await scale(zone, 2);
    assert.equal(code, 1);
    assert.match(stderr, /it keeps its size/);
    assert.deepEqual(callsOf(zone), [`POST ${zone}-2`]);
    const timeOf = (method: string) =>
      notified.ingesters.calls.find((call) => call.pod === `${zone}-2` && call.method === method)?.atMs;
    assert.match((await scale(other, 2)).stderr, /zone-scaling-down|claimed for a scale-down/);
    const undoneMs = await eventually("the pod told to stay", 120_000, async () => timeOf("DELETE"));
    const seconds = (undoneMs - (timeOf("POST") ?? 0)) / 1_000;
    context.diagnostic(`told to stay after ${seconds.toFixed(1)} s`);
    assert.ok(seconds > 85 && seconds <= 100, `${seconds} s`);
    await eventually("the group free", 10_000, async () => ((await scale(other, 2)).code === 0 ? true : undefined));
  });

  test("with ordinals that start at 5 the highest pods are told, and a dry run tells no pod", async () => {
    const manifests = groupManifests(optionsOf("shifted"));
    for (const manifest of manifests)
      await api.post(sets, { ...manifest, spec: { ...manifest.spec, ordinals: { start: 5 } } });
    const statefulSets = manifests.map(({ metadata }) => metadata.name);
    await waitForGroupReady(stage.controlPlane, { name: "shifted", namespace, statefulSets, pods: 3 });
    await waitForOldLedger("shifted");
    const [zone = ""] = statefulSets;
    assert.equal((await scale(zone, 1, "--dry-run=server")).code, 0);
    assert.deepEqual(callsOf(zone), []);
    assert.equal((await scale(zone, 1)).code, 0);
    assert.deepEqual(callsOf(zone).sort(), [`POST ${zone}-6`, `POST ${zone}-7`]);
  });

  test("if only the start is raised, the lowest pods are told, and these pods leave", async () => {
    const [zone] = await zonesOf("raised");
    const raise = (start: number, ...args: string[]) =>
      kubectl("patch", "statefulset", zone, "-p", JSON.stringify({ spec: { ordinals: { start } } }), ...args);
    assert.equal((await raise(1, "--dry-run=server")).code, 0);
    assert.deepEqual(callsOf(zone), []);
    const { code, stderr } = await raise(1);
    assert.equal(code, 0, stderr);
    assert.deepEqual(callsOf(zone), [`POST ${zone}-0`]);
    await eventually("the lowest pod gone", 30_000, async () => {
      const pods = await api.get<{ items: { metadata: { name: string } }[] }>(`/api/v1/namespaces/${namespace}/pods`);
      const names = pods.items.map(({ metadata }) => metadata.name).filter((name) => name.startsWith(`${zone}-`));
      return names.sort().join() === [1, 2, 3].map((ordinal) => `${zone}-${ordinal}`).join() ? true : undefined;
    });
    assert.deepEqual(callsOf(zone), [`POST ${zone}-0`]);
  });

  test("annotations that would lead to another host lead to the pod itself, or nowhere", async (context) => {
    const received: string[] = [];
    const trap = createServer(({ headers, url }, response) => {
      received.push(`${headers.host} ${url}`);
      response.end();
    }).listen(0, "127.0.0.1");
    context.after(() => trap.close());
    await once(trap, "listening");
    const at = `127.0.0.1:${(trap.address() as AddressInfo).port}`;
    const [zone] = await zonesOf("misled");
    const annotate = (key: "path" | "port", value: string) =>
      api.patch(`${sets}/${zone}`, {
        metadata: { annotations: { [`grafana.com/prepare-downscale-http-${key}`]: value } },
      });
    const ask = async (key: "path" | "port", value: string): Promise<string> => {
      await annotate(key, value);
      const refusal = await api
        .patch(`${sets}/${zone}/scale`, { spec: { replicas: 2 } })
        .catch((error: unknown) => error);
      assert.ok(refusal instanceof ApiError, `${key} ${value}`);
      return refusal.message;
    };
    for (const port of [
      `1@${at}`,
      `${notified.ingesters.port}@${at}`,
      " 80",
      "0x50",
      "+80",
      "80/x",
      "0",
      "65536",
      "٨٠",
    ])
      assert.match(await ask("port", port), /: 400 .+write a port from 1 to 65535/);
    assert.deepEqual(callsOf(zone), []);
    await annotate("port", String(notified.ingesters.port));
    for (const path of ["/a#b", "/a b", "/a\r\nHost: x"]) assert.match(await ask("path", path), /: 400 .+write a path/);
    assert.deepEqual(callsOf(zone), []);
    for (const path of [`//${at}/x`, `http://${at}/x`, `@${at}/x`, "../../x", "/%2e%2e/x", "\\\\x"])
      assert.match(await ask("path", path), /: 429 .+HTTP 404/);
    assert.deepEqual(new Set(callsOf(zone)), new Set([`POST ${zone}-2`, `DELETE ${zone}-2`]));
    assert.deepEqual(received, []);
  });
});
