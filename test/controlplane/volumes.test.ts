/**
 * The real controller attaches volumes to nodes and detaches them. No driver runs here: the test reports in its place that a
 * volume is attached, and in the kubelet's place that it is mounted.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Api, eventually } from "./api.ts";
import { type ControlPlane, startControlPlane } from "./controlplane.ts";

const driver = "test.sluice.dev";
const attachments = "/apis/storage.k8s.io/v1/volumeattachments";

interface Attachment {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec: { readonly nodeName: string; readonly source: { readonly persistentVolumeName: string } };
}

describe("volumes of a control plane with all controllers", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;

  before(async () => {
    controlPlane = await startControlPlane({ podsReadyAfterMs: 20, nodes: 2, controllers: "all" });
    api = await Api.open(controlPlane, { userAgent: "volumes-test" });
    await api.post("/apis/storage.k8s.io/v1/csidrivers", {
      apiVersion: "storage.k8s.io/v1",
      kind: "CSIDriver",
      metadata: { name: driver },
      spec: { attachRequired: true },
    });
  });

  after(async () => {
    await api?.close();
    await controlPlane?.stop();
  });

  test("a volume is attached to the node of the pod that uses it, and detached when the pod is gone", async () => {
    await createPodWithVolume("one", "node-1");
    const attachment = await attached("one");
    assert.equal(attachment.spec.nodeName, "node-1");
    await removePod("one");
    await detached("one");
  });

  test("a volume that is still mounted stays attached, until its node is out of service", async () => {
    await createPodWithVolume("two", "node-2");
    await attached("two");
    const volumesInUse = [`kubernetes.io/csi/${driver}^two`];
    await api.patch("/api/v1/nodes/node-2/status", { status: { volumesInUse } });
    await removePod("two");
    await delay(2_000);
    assert.ok(await attachmentOf("two"), "still attached");
    const taints = [{ key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" }];
    await api.patch("/api/v1/nodes/node-2", { spec: { taints } });
    await detached("two");
  });

  async function createPodWithVolume(name: string, nodeName: string): Promise<void> {
    const storage = { storage: "1Gi" };
    const common = { accessModes: ["ReadWriteOnce"], storageClassName: name };
    const csi = { driver, volumeHandle: name };
    await api.post("/api/v1/persistentvolumes", {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name },
      spec: { ...common, capacity: storage, csi },
    });
    await api.post("/api/v1/namespaces/default/persistentvolumeclaims", {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name },
      spec: { ...common, resources: { requests: storage } },
    });
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: name } }];
    await api.post("/api/v1/namespaces/default/pods", {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name },
      spec: { nodeName, containers: [{ name: "app", image: "app:1" }], volumes },
    });
  }

  async function attachmentOf(volume: string): Promise<Attachment | undefined> {
    const { items } = await api.get<{ items: Attachment[] }>(attachments);
    return items.find(({ spec }) => spec.source.persistentVolumeName === volume);
  }

  /** Reports for the driver that the volume is attached; resolves when its node shows it. */
  async function attached(volume: string): Promise<Attachment> {
    const attachment = await eventually(`an attachment of ${volume}`, 20_000, () => attachmentOf(volume));
    await api.patch(`${attachments}/${attachment.metadata.name}/status`, { status: { attached: true } });
    const path = `/api/v1/nodes/${attachment.spec.nodeName}`;
    await eventually(`${volume} at its node`, 20_000, async () => {
      const node = await api.get<{ status: { volumesAttached?: readonly { name: string }[] } }>(path);
      return node.status.volumesAttached?.find(({ name }) => name === `kubernetes.io/csi/${driver}^${volume}`);
    });
    return attachment;
  }

  async function detached(volume: string): Promise<void> {
    await eventually(`no attachment of ${volume}`, 20_000, async () =>
      (await attachmentOf(volume)) === undefined ? true : undefined,
    );
  }

  async function removePod(name: string): Promise<void> {
    const path = `/api/v1/namespaces/default/pods/${name}`;
    await api.delete(path, { gracePeriodSeconds: 0 });
    await eventually(`the end of pod ${name}`, 10_000, async () => {
      const answer = await api.send("GET", path);
      await answer.body.dump();
      return answer.statusCode === 404 ? true : undefined;
    });
  }
});
