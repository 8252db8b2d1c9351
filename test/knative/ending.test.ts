/**
 * A namespace is deleted with the Sluice in it. Its content goes in any order, the account and rights of Sluice too: so the
 * rest is done from outside of it.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { runKubectl } from "../support/drain.ts";
import { isWebhook, isWorkload, kubeconfigOf, workloadOf } from "../support/installed.ts";
import { isDefinition, Kubectl } from "../support/kubectl.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

/** Of each kind: those whose replicas go on, and those whose replicas are killed at the deletion. */
const namespaces = Number(process.env.NAMESPACES ?? 4);
const atOnce = 4;
const withinMs = 60_000;
const outside = "sluice-system";
const volumeHold = "sluice.dev/volume-hold";
const releaseFinalizer = "sluice.dev/release-prestop";

describe("a namespace with Sluice inside", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let kubectl: Kubectl;
  let releaser: Server;
  const started: Server[] = [];
  /** kubectl has one folder for what it builds. */
  let installed: Promise<unknown> = Promise.resolve();

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-ending" });
    kubectl = await Kubectl.open(controlPlane);
    await runKubectl(controlPlane, "apply", "-k", join(import.meta.dirname, "../fixtures/crds"));
    await kubectl.apply((await kubectl.build("overlays/standalone")).filter(isDefinition));
    await kubectl.waitForDefinitions();
    await kubectl.run("create", "namespace", outside);
    const objects = await kubectl.build("overlays/outside");
    await kubectl.apply(objects.filter((object) => !isWorkload(object)));
    const { account, settings } = workloadOf(objects, "sluice-outside");
    const kubeconfig = await kubeconfigOf(controlPlane, api, outside, account);
    releaser = await Server.start({ kubeconfig, namespace: "*", settings: { ...settings, PORT: "0" } });
    await releaser.ready();
  });

  after(async () => {
    await Promise.all([releaser, ...started].map((server) => server?.kill()));
    await kubectl?.close();
    await api?.close();
    await controlPlane?.stop();
  });

  /** Two replicas under the account of the namespace, claims that are suspended, one on hold, and an owner that is held. */
  async function furnish(namespace: string): Promise<readonly Server[]> {
    const installing = installed.then(async () => {
      await kubectl.run("create", "namespace", namespace);
      const built = await kubectl.buildIn(namespace, "standalone");
      await kubectl.apply(built.filter((one) => !isWebhook(one) && !isWorkload(one) && !isDefinition(one)));
      return built;
    });
    installed = installing;
    const objects = await installing;
    const { account, settings } = workloadOf(objects, "sluice");
    const kubeconfig = await kubeconfigOf(controlPlane, api, namespace, account);
    const own = { ...settings, PORT: "0", TLS_PORT: "off" };
    const servers = await Promise.all([0, 1].map(() => Server.start({ kubeconfig, namespace, settings: own })));
    started.push(...servers);
    for (const server of servers) await server.ready();
    for (let ordinal = 0; ordinal < 5; ordinal++) {
      const name = `data-db-${ordinal}`;
      const onHold = ordinal === 0 ? { "sluice.dev/hold": "true" } : {};
      const metadata = { name, finalizers: [volumeHold], annotations: { "sluice.dev/suspend": "true", ...onHold } };
      const size = { storage: "1Gi" };
      const volumeName = `${namespace}-${ordinal}`;
      const claim = { accessModes: ["ReadWriteOnce"], resources: { requests: size }, volumeName, storageClassName: "" };
      const { metadata: made } = await api.post<{ metadata: { uid: string } }>(
        `/api/v1/namespaces/${namespace}/persistentvolumeclaims`,
        { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata, spec: claim },
      );
      await api.post("/api/v1/persistentvolumes", {
        apiVersion: "v1",
        kind: "PersistentVolume",
        metadata: { name: volumeName },
        spec: {
          accessModes: ["ReadWriteOnce"],
          capacity: size,
          claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name, uid: made.uid },
          persistentVolumeReclaimPolicy: "Delete",
          csi: { driver: "csi.example.com", volumeHandle: volumeName },
        },
      });
    }
    const owner = {
      name: "orders",
      finalizers: [releaseFinalizer],
      annotations: { "sluice.dev/skip-label": "skipPreStopChecks" },
    };
    await api.post(`/apis/rabbitmq.com/v1beta1/namespaces/${namespace}/rabbitmqclusters`, {
      apiVersion: "rabbitmq.com/v1beta1",
      kind: "RabbitmqCluster",
      metadata: owner,
      spec: {},
    });
    return servers;
  }

  /** Resolves to the milliseconds from its deletion until it is gone. */
  async function end(namespace: string, servers: readonly Server[], isKilled: boolean): Promise<number> {
    const startedMs = performance.now();
    const killed = isKilled ? servers.map((server) => server.kill()) : [];
    await api.delete(`/api/v1/namespaces/${namespace}`);
    await Promise.all(killed);
    await eventually(`${namespace} gone`, withinMs, async () => {
      const { statusCode, body } = await api.send("GET", `/api/v1/namespaces/${namespace}`);
      await body.dump();
      return statusCode === 404 ? true : undefined;
    });
    const tookMs = performance.now() - startedMs;
    await Promise.all(servers.map((server) => server.kill()));
    return tookMs;
  }

  for (const isKilled of [false, true]) {
    const how = isKilled ? "both replicas are killed at the deletion" : "its replicas go on without an account";
    test(`${how}: it is gone within 60 s, and the volume on hold is retained`, async (context) => {
      const names = Array.from(
        { length: namespaces },
        (_, index) => `ending-${isKilled ? "killed" : "alive"}-${index}`,
      );
      const took: number[] = [];
      for (let first = 0; first < names.length; first += atOnce) {
        const batch = names.slice(first, first + atOnce).map(async (namespace) => {
          const servers = await furnish(namespace);
          took.push(await end(namespace, servers, isKilled));
          const { spec } = await api.get<{ spec: { persistentVolumeReclaimPolicy: string } }>(
            `/api/v1/persistentvolumes/${namespace}-0`,
          );
          assert.equal(spec.persistentVolumeReclaimPolicy, "Retain", namespace);
        });
        await Promise.all(batch);
      }
      const seconds = took.map((ms) => (ms / 1_000).toFixed(1));
      context.diagnostic(`${took.length} of ${names.length} gone, after ${seconds.join(", ")} s`);
      assert.equal(took.length, names.length);
    });
  }

  test("the account outside changes nothing of a namespace that stays, and nothing but finalizers of one that ends", async () => {
    const namespace = "staying";
    for (const server of await furnish(namespace)) await server.kill();
    const patch = async (path: string, body: object): Promise<string> => {
      const headers = { "impersonate-user": `system:serviceaccount:${outside}:sluice-outside` };
      const { body: answer } = await api.send("PATCH", path, body, "application/merge-patch+json", headers);
      return ((await answer.json()) as { message?: string }).message ?? "done";
    };
    const none = { metadata: { finalizers: [] } };
    const volume = { spec: { persistentVolumeReclaimPolicy: "Recycle" } };
    assert.match(
      await patch(`/api/v1/namespaces/${namespace}/persistentvolumeclaims/data-db-1`, {
        metadata: { finalizers: ["kubernetes.io/pvc-protection"] },
      }),
      /only while that is being deleted/,
    );
    assert.match(await patch(`/api/v1/persistentvolumes/${namespace}-1`, volume), /and keeps volumes/);
    const owner = `/apis/rabbitmq.com/v1beta1/namespaces/${namespace}/rabbitmqclusters/orders`;
    // Others hold it as well, so that it is there to be written while its namespace ends.
    await api.patch(owner, { metadata: { finalizers: ["example.com/other", releaseFinalizer] } });
    await api.delete(`/api/v1/namespaces/${namespace}`);
    assert.match(
      await patch(owner, { spec: { replicas: 5 } }),
      /no other field of rabbitmqclusters\.rabbitmq\.com may be changed/,
    );
    assert.match(
      await patch(owner, { metadata: { labels: { app: "x" } } }),
      /no other label or annotation of rabbitmqclusters/,
    );
    const more = { metadata: { finalizers: ["example.com/other", "example.com/more"] } };
    assert.match(await patch(owner, more), /no other owner or finalizer of rabbitmqclusters/);
    const taken = { spec: { persistentVolumeReclaimPolicy: "Retain", claimRef: null } };
    assert.match(await patch(`/api/v1/persistentvolumes/${namespace}-1`, taken), /no other field of persistentvolumes/);
    assert.match(await patch(owner, none), /no other owner or finalizer of rabbitmqclusters/);
    assert.equal(await patch(owner, { metadata: { finalizers: ["example.com/other"] } }), "done");
  });
});
