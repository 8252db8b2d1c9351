/** A deleted RabbitmqCluster on a real API server, where Sluice may exec: the marker is read in each of its pods. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { markSkipLabel } from "../../functions/mark-skip-label/function.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { type BuiltServer, buildServer } from "../support/built-server.ts";
import { type ContainerFiles, serveContainerFiles } from "../support/container-files.ts";
import { runKubectl } from "../support/drain.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { finalizer } from "./skip-label-witness.ts";

const apiVersion = "rabbitmq.com/v1beta1";
const namespace = "markers";
const path = `/apis/${apiVersion}/namespaces/${namespace}/rabbitmqclusters/orders`;
const marker = "/etc/pod-info/skipPreStopChecks";

interface Labelled {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>>; readonly finalizers?: readonly string[] };
}

describe("owners whose pods see their marker", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let files: ContainerFiles;
  let built: BuiltServer;
  let server: Server;

  before(async () => {
    built = await buildServer();
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-markers" });
    await runKubectl(controlPlane, "apply", "-k", join(import.meta.dirname, "../fixtures/crds"));
    await runKubectl(controlPlane, "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
    // As the kubelet shows a label in a file.
    files = await serveContainerFiles(async ({ pod }) => {
      const { metadata } = await api.get<Labelled>(`/api/v1/namespaces/${namespace}/pods/${pod}`);
      return metadata.labels?.skipPreStopChecks;
    });
    const nodes = await api.get<{ items: { metadata: { name: string } }[] }>("/api/v1/nodes");
    for (const { metadata } of nodes.items) {
      const status = { daemonEndpoints: { kubeletEndpoint: { Port: files.port } } };
      await api.patch(`/api/v1/nodes/${metadata.name}/status`, { status });
    }
  });

  after(async () => {
    await server?.kill();
    await files?.close();
    await api?.close();
    await controlPlane?.stop();
    await built?.remove();
  });

  test("an annotated RabbitmqCluster is gone in under 10 s, once the marker was read in each of its pods", async (context) => {
    const group = await createGroup(controlPlane, { name: "orders", namespace, zones: 1, pods: 3 });
    const { uid } = (
      await api.post<{ metadata: { uid: string } }>(path.replace(/\/orders$/, ""), {
        apiVersion,
        kind: "RabbitmqCluster",
        metadata: { name: "orders", annotations: { "sluice.dev/skip-label": "skipPreStopChecks" } },
        spec: {},
      })
    ).metadata;
    const reference = { apiVersion, kind: "RabbitmqCluster", name: "orders", uid, controller: true };
    const owned = `/apis/apps/v1/namespaces/${namespace}/statefulsets/orders-zone-a`;
    await api.patch(owned, { metadata: { ownerReferences: [reference] } });
    await waitForGroupReady(controlPlane, group);
    const pod = await api.get<{ spec: { containers: { name: string }[] } }>(
      `/api/v1/namespaces/${namespace}/pods/orders-zone-a-0`,
    );
    const container = pod.spec.containers[0]?.name ?? "";
    const settings = { FUNCTION: markSkipLabel.name, SKIP_LABEL_MARKER: `${container}:${marker}` };
    // The image has only parts of undici, among them those that open a WebSocket.
    const { program } = built;
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace, settings, program });
    await eventually("the owner held", 30_000, async () =>
      (await api.get<Labelled>(path)).metadata.finalizers?.includes(finalizer) ? true : undefined,
    );
    const startedMs = performance.now();
    await api.delete(path, { propagationPolicy: "Background" });
    await eventually("the owner gone", 80_000, async () => {
      const { statusCode, body } = await api.send("GET", path);
      await body.dump();
      return statusCode === 404 ? true : undefined;
    });
    const tookMs = performance.now() - startedMs;
    context.diagnostic(`gone after ${(tookMs / 1_000).toFixed(1)} s, with ${files.reads.length} reads`);
    assert.ok(tookMs < 10_000, `${tookMs} ms`);
    const read = new Set(files.reads.map((one) => `${one.pod} ${one.container} ${one.path}`));
    assert.deepEqual(read, new Set([0, 1, 2].map((ordinal) => `orders-zone-a-${ordinal} ${container} ${marker}`)));
  });
});
