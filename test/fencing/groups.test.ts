/**
 * A fence beside the other functions of Sluice, on real machines: a rollout, an eviction and a downscale of its group wait from
 * before the taint until the pods of the node are back (A9). The audit log of the API server shows the order.
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../controlplane/api.ts";
import { type AuditEntry, auditPosition, readAudit } from "../controlplane/audit.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
import { evict, type Presented, presentCertificate, registerWebhook } from "../support/drain-webhook.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { BlockingProxy } from "./blocking-proxy.ts";
import { FencingCluster, namespace } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";

const timeoutMs = 90_000;
/** How long the machine is off, as one that starts anew. */
const offForMs = 20_000;
/** From the start of a pod to its readiness: a node is Ready before its pods are. */
const readyAfterMs = 3_000;
/** From the readiness of the pods until nothing in the ledger holds the group. */
const freeWithinMs = 10_000;
const groupFunctions = "advance-zone-rollout,evaluate-eviction,follow-replicas";
const key = (name: string) => `sluice.dev/${name}`;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());
const statefulSets = "/apis/apps/v1/namespaces/default/statefulsets";
const ledger = "/apis/coordination.k8s.io/v1/namespaces/default/leases/sluice-db";
const node = "/api/v1/nodes/node-1";

interface Zone {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: { readonly replicas: number };
  readonly status?: Readonly<Record<string, number | string>>;
}

describe("a group with pods on the fenced node, on the real API server", { skip, concurrency: 1 }, () => {
  let cluster: FencingCluster;
  let certificate: Presented;
  let proxy: BlockingProxy;
  let servers: readonly Server[] = [];
  let machine: Machine;

  before(async () => {
    // No agent can be asked, so that each is explicit-only: the boot id is the evidence here.
    cluster = await FencingCluster.start(2, { HOST_IPS: "" });
    machine = cluster.machine("node-1");
    const { controlPlane, api } = cluster;
    await applyCrds(controlPlane);
    const apiVersion = "rollout-operator.grafana.com/v1";
    await api.post(`/apis/${apiVersion}/namespaces/default/zoneawarepoddisruptionbudgets`, {
      ...{ apiVersion, kind: "ZoneAwarePodDisruptionBudget" },
      metadata: { name: "db" },
      spec: { maxUnavailable: 1, selector: { matchLabels: { "rollout-group": "db" } } },
    });
    await createZone("zone-a", "node-1", 1);
    await createZone("zone-b", "node-2", 2);
    await createZone("zone-c", "node-2", 2, { "grafana.com/rollout-downscale-leader": "db-zone-b" });
    certificate = await presentCertificate();
    proxy = await BlockingProxy.start(controlPlane);
    const { kubeconfig } = controlPlane;
    const ofGroup = { FUNCTION: groupFunctions, EVICTION_WAIT: "0" };
    const ofFence = { FUNCTION: "fence-node", FENCE_NAMESPACE: namespace };
    servers = await Promise.all([
      Server.start({ kubeconfig, namespace: "default", settings: { ...certificate.settings, ...ofGroup } }),
      Server.start({ kubeconfig: proxy.kubeconfig, namespace, settings: ofFence }),
    ]);
    const [server] = servers;
    assert.ok(server);
    await server.ready();
    await registerWebhook(api, "default", "Mutating", { port: server.tlsPort, ca: certificate.ca });
    await eventually("an eviction would be allowed", timeoutMs, async () =>
      (await evict(api, "default", "db-zone-b-1", "in the body")).code === 201 ? true : undefined,
    );
  });

  afterEach((context) => cluster.printLogsOf(context, { log: servers.flatMap(({ log }) => log) }));

  after(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await proxy?.close();
    await certificate?.remove();
    await cluster?.stop();
  });

  async function createZone(zone: string, on: string, replicas: number, more: object = {}): Promise<void> {
    const name = `db-${zone}`;
    const labels = { name, "rollout-group": "db" };
    const template = {
      metadata: { labels, annotations: { [ANNOTATIONS.readyAfterMs]: String(readyAfterMs) } },
      spec: {
        nodeSelector: { "kubernetes.io/hostname": on },
        containers: [{ name: "app", image: "app:1" }],
      },
    };
    await cluster.api.post(statefulSets, {
      metadata: { name, labels, annotations: { "rollout-max-unavailable": "1", ...more } },
      spec: {
        ...{ serviceName: name, replicas, podManagementPolicy: "Parallel", updateStrategy: { type: "OnDelete" } },
        ...{ selector: { matchLabels: { name } }, template },
      },
    });
    await eventually(`${name} is ready`, timeoutMs, async () =>
      (await zoneOf(zone)).status?.readyReplicas === replicas ? true : undefined,
    );
  }

  const zoneOf = (zone: string) => cluster.api.get<Zone>(`${statefulSets}/db-${zone}`);
  const patchZone = (zone: string, body: object) => cluster.api.patch<Zone>(`${statefulSets}/db-${zone}`, body);

  async function waitsInLedger(name: string): Promise<void> {
    await eventually(`${name} waits`, timeoutMs, async () => {
      const { metadata } = await cluster.api.get<Zone>(ledger);
      const verdicts = JSON.parse(metadata.annotations?.[key("verdicts")] ?? "{}") as Record<string, { guard: string }>;
      return verdicts[name]?.guard === "zone-losing-node" ? true : undefined;
    });
  }

  /** Asks for all three, and resolves when each has waited for the claim of the fence. */
  async function ask(): Promise<void> {
    const { code, message } = await evict(cluster.api, "default", "db-zone-b-1");
    assert.equal(code, 429, message);
    assert.match(message, /a node that failed/);
    await patchZone("zone-b", { spec: { template: { metadata: { annotations: { version: "2" } } } } });
    await patchZone("zone-c", { metadata: { annotations: { "grafana.com/rollout-force-replicas": "1" } } });
    await waitsInLedger("advance-zone-rollout");
    await waitsInLedger("follow-replicas");
  }

  const isOfSluice = ({ userAgent }: AuditEntry, functions: string) => userAgent.endsWith(`(${functions})`);
  const isDone = ({ code = 0 }: AuditEntry) => code >= 200 && code < 300;
  /** What takes a pod of the group. */
  const isAct = (entry: AuditEntry) => {
    const { verb, resource } = entry;
    if (!isDone(entry)) return false;
    if (resource === "pods/eviction") return true;
    const isResize = verb === "patch" && /^statefulsets(\/scale)?$/.test(resource) && isOfSluice(entry, groupFunctions);
    const isRolled = `${verb} ${resource}` === "delete pods" && isOfSluice(entry, groupFunctions);
    return isRolled || isResize;
  };

  /** Returns for how long the ledger was not free after the readiness of the pods. */
  function assertOrder(entries: readonly AuditEntry[]): number {
    const writesOf = (functions: string) =>
      entries.filter(
        (one) => one.name === "sluice-db" && one.verb === "patch" && isDone(one) && isOfSluice(one, functions),
      );
    const [claimed, ...later] = writesOf("fence-node");
    const freed = later.at(-1);
    assert.ok(claimed && freed);
    const tainted = entries.find(
      (one) => one.at > claimed.at && `${one.verb} ${one.resource}` === "patch nodes" && isOfSluice(one, "fence-node"),
    );
    assert.equal(tainted?.code, 200);
    const refused = entries.filter(({ resource, code }) => resource === "pods/eviction" && code === 429);
    for (const waits of [refused, writesOf(groupFunctions)])
      assert.ok(waits.some(({ at }) => at > claimed.at && at < tainted.at));
    const acts = entries.filter(isAct);
    assert.ok(acts.length >= 4, "two pods are rolled, one leaves, and one is evicted");
    assert.deepEqual(
      acts.filter(({ at }) => at > claimed.at && at < freed.at),
      [],
    );
    const ready = entries.findLast(
      ({ userAgent, resource, name, at }) =>
        userAgent === "kubelet-of-node-1" && resource === "pods/status" && name === "db-zone-a-0" && at < freed.at,
    );
    assert.ok(ready && ready.at > tainted.at + offForMs);
    return freed.at - ready.at;
  }

  test("rollout, eviction and downscale wait from before the taint, and the ledger is free within 10 s of the pods' readiness", async (context) => {
    const { auditLog } = cluster.controlPlane;
    const from = await auditPosition(auditLog);
    const taint = proxy.block(node, "NoSchedule");
    await cluster.mark("node-1");
    await taint.sent;
    await ask();
    assert.deepEqual((await cluster.node("node-1")).spec.taints ?? [], []);
    machine.bootsAgain = false;
    assert.equal(await taint.release(), 200);
    await eventually("the machine is off", timeoutMs, async () => (machine.isOn ? undefined : true));
    await delay(offForMs);
    await machine.boot();
    await cluster.untilClean(machine);
    await eventually("the rollout has ended", timeoutMs, async () =>
      (await zoneOf("zone-b")).status?.updatedReplicas === 2 ? true : undefined,
    );
    await eventually("the downscale has ended", timeoutMs, async () =>
      (await zoneOf("zone-c")).status?.replicas === 1 ? true : undefined,
    );
    await eventually("the eviction is allowed", timeoutMs, async () =>
      (await evict(cluster.api, "default", "db-zone-b-1")).code === 201 ? true : undefined,
    );

    const entries = await Array.fromAsync(readAudit(auditLog, { from }));
    const freeMs = assertOrder(entries);
    context.diagnostic(`the ledger is free ${freeMs} ms after the readiness of the pods`);
    assert.ok(freeMs <= freeWithinMs, `${freeMs} ms`);
    assert.deepEqual([machine.resets.length, cluster.overlaps], [1, []]);
  });
});
