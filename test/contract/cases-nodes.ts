/** Nodes: clients cordon and fence by writing them, and controllers remove pods from nodes that are tainted or gone. */
import assert from "node:assert/strict";
import type { PodObject } from "../../functions/shared/kubernetes/cluster.ts";
import { rejection } from "../support/rejection.ts";
import { type Case, createPod, eventually, type Fixture, gonePod, readyPod } from "./fixture.ts";

const noExecute = { key: "test.sluice.dev/fenced", effect: "NoExecute" };
const outOfService = { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" };
/** No kubelet ends these pods while a case runs. */
const kept = { annotations: { "test.sluice.dev/gone-after-ms": "600000" } };

const objects: readonly Case[] = [
  {
    name: "a Node belongs to the whole cluster: a patch cordons and taints it, and only its status holds its conditions",
    async run({ cluster, namespace }) {
      const name = `${namespace}-node`;
      const key = { namespace: "", name };
      const taint = { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" };
      const made = await cluster.create("nodes", "", { metadata: { name } });
      assert.equal(made.metadata.namespace, undefined);
      await cluster.patch("nodes", key, { spec: { unschedulable: true, taints: [taint] } });
      const conditions = [{ type: "Ready", status: "Unknown", lastTransitionTime: "2026-01-01T00:00:00Z" }];
      await cluster.patch("nodes", key, { status: { conditions } });
      const { spec, status } = await cluster.get("nodes", key);
      assert.equal(spec?.unschedulable, true);
      assert.ok(spec.taints?.some((one) => one.key === taint.key && one.effect === taint.effect));
      assert.deepEqual(status?.conditions ?? [], []);
      const written = await cluster.patch("nodes", key, { status: { conditions } }, { subresource: "status" });
      const [ready] = written.status?.conditions ?? [];
      assert.deepEqual(
        [ready?.type, ready?.status, ready?.lastTransitionTime],
        ["Ready", "Unknown", "2026-01-01T00:00:00Z"],
      );
      const uid = "00000000-0000-4000-8000-000000000000";
      assert.equal((await rejection(cluster.delete("nodes", key, { uid }))).code, 409);
      await cluster.delete("nodes", key, { uid: made.metadata.uid });
      assert.equal((await rejection(cluster.get("nodes", key))).code, 404);
    },
  },
];

const reports: readonly Case[] = [
  {
    name: "a Node holds the boot and the machine that its kubelet reports, in its status alone",
    async run(fixture) {
      const { cluster } = fixture;
      const key = { namespace: "", name: await createOwnNode(fixture) };
      const nodeInfo = { bootID: "boot-1", systemUUID: "machine-1" };
      await cluster.patch("nodes", key, { status: { nodeInfo } });
      assert.ok(!(await cluster.get("nodes", key)).status?.nodeInfo?.bootID);
      await cluster.patch("nodes", key, { status: { nodeInfo } }, { subresource: "status" });
      await cluster.patch("nodes", key, { status: { nodeInfo: { bootID: "boot-2" } } }, { subresource: "status" });
      const { status } = await cluster.get("nodes", key);
      assert.deepEqual([status?.nodeInfo?.bootID, status?.nodeInfo?.systemUUID], ["boot-2", "machine-1"]);
    },
  },
  {
    name: "taints and annotations of a Node are written by one conditional patch, which a status in between refuses",
    async run(fixture) {
      const { cluster } = fixture;
      const key = { namespace: "", name: await createOwnNode(fixture) };
      const { metadata } = await cluster.get("nodes", key);
      const from = { uid: metadata.uid, resourceVersion: metadata.resourceVersion };
      await cluster.patch("nodes", key, { status: { nodeInfo: { bootID: "boot" } } }, { subresource: "status" });
      const taints = [{ key: "test.sluice.dev/fence", effect: "NoSchedule" }];
      const body = { metadata: { ...from, annotations: { "test.sluice.dev/a": "1" } }, spec: { taints } };
      assert.equal((await rejection(cluster.patch("nodes", key, body))).code, 409);
      const unchanged = await cluster.get("nodes", key);
      assert.deepEqual([unchanged.spec?.taints ?? [], unchanged.metadata.annotations ?? {}], [[], {}]);
      const { resourceVersion } = unchanged.metadata;
      const written = await cluster.patch("nodes", key, { ...body, metadata: { ...body.metadata, resourceVersion } });
      assert.deepEqual(written.spec?.taints, taints);
      assert.equal(written.metadata.annotations?.["test.sluice.dev/a"], "1");
    },
  },
  {
    name: "a list of metadata alone holds the annotations of Nodes, and neither spec nor status",
    async run(fixture) {
      const { cluster } = fixture;
      const name = await createOwnNode(fixture);
      await taint(fixture, name, [noExecute]);
      const annotations = { "test.sluice.dev/mark": "why" };
      const { metadata } = await cluster.patch("nodes", { namespace: "", name }, { metadata: { annotations } });
      const { items, resourceVersion } = await cluster.list("nodes", { metadataOnly: true });
      const listed = items.find((node) => node.metadata.name === name);
      assert.deepEqual(Object.keys(listed ?? {}), ["metadata"]);
      assert.deepEqual([listed?.metadata.uid, listed?.metadata.annotations], [metadata.uid, annotations]);
      assert.ok(BigInt(resourceVersion) >= BigInt(metadata.resourceVersion));
    },
  },
  {
    name: "a watch of Nodes reports a mark, a status and the end of a Node",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const { resourceVersion } = await cluster.list("nodes", { metadataOnly: true });
      const name = await createOwnNode(fixture);
      const key = { namespace: "", name };
      await cluster.patch("nodes", key, { metadata: { annotations: { "test.sluice.dev/mark": "why" } } });
      const { metadata } = await cluster.get("nodes", key);
      await cluster.delete("nodes", key, { uid: metadata.uid });
      const seen: string[] = [];
      for await (const event of cluster.watch("nodes", { resourceVersion })) {
        if (event.type === "BOOKMARK" || event.object.metadata.name !== `${namespace}-node`) continue;
        const ready = event.object.status?.conditions?.find(({ type }) => type === "Ready")?.status ?? "";
        seen.push(`${event.type} ${ready} ${event.object.metadata.annotations?.["test.sluice.dev/mark"] ?? ""}`);
        if (event.type === "DELETED") break;
      }
      assert.deepEqual(seen, ["ADDED  ", "MODIFIED True ", "MODIFIED True why", "DELETED True why"]);
    },
  },
];

const bound: readonly Case[] = [
  {
    name: "a list by node holds the pods of all namespaces that are bound to it, with what they tolerate and what they mirror",
    async run(fixture) {
      const { cluster, otherNamespace } = fixture;
      const [nodeName, other] = [`${fixture.namespace}-a`, `${fixture.namespace}-b`];
      const tolerations = [{ key: noExecute.key, operator: "Exists" as const, effect: "NoExecute" }];
      const mirror = { "kubernetes.io/config.mirror": "hash" };
      await createPod(fixture, "tolerates", { ...kept, nodeName, tolerations });
      await createPod(fixture, "elsewhere", { ...kept, nodeName: other });
      await createPod({ ...fixture, namespace: otherNamespace }, "mirrors", { annotations: mirror, nodeName });
      const { items } = await cluster.list("pods", { nodeName });
      assert.deepEqual(items.map(({ metadata }) => metadata.name).sort(), ["mirrors", "tolerates"]);
      assert.ok(items.every(({ spec }) => spec?.nodeName === nodeName));
      const [mirrors, tolerates] = items.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
      assert.equal(mirrors?.metadata.annotations?.["kubernetes.io/config.mirror"], "hash");
      const found = tolerates?.spec?.tolerations?.find(({ key }) => key === noExecute.key);
      assert.deepEqual([found?.operator, found?.effect, found?.tolerationSeconds], ["Exists", "NoExecute", undefined]);
      const { items: inOne } = await cluster.list("pods", { namespace: otherNamespace, nodeName });
      assert.deepEqual(
        inOne.map(({ metadata }) => metadata.name),
        ["mirrors"],
      );
    },
  },
  {
    name: "only pods are listed by node: a list of another type by node is 400",
    async run({ cluster, namespace }) {
      const error = await rejection(cluster.list("leases", { namespace, nodeName: "node-1" }));
      assert.deepEqual([error.code, error.reason], [400, "BadRequest"]);
      assert.match(error.message, /"spec.nodeName" is not a known field selector/);
    },
  },
  {
    name: "a VolumeAttachment names the node that its volume is attached to, and its status says whether it is",
    async run({ cluster, namespace }) {
      const key = { namespace: "", name: `${namespace}-attachment` };
      const nodeName = `${namespace}-node`;
      const source = { persistentVolumeName: `${namespace}-volume` };
      const made = await cluster.create("volumeattachments", "", {
        metadata: { name: key.name },
        spec: { attacher: "test.sluice.dev", nodeName, source },
        status: { attached: true },
      });
      const listed = async () => {
        const { items } = await cluster.list("volumeattachments", {});
        const ofNode = items.filter(({ spec }) => spec?.nodeName === nodeName);
        return ofNode.map((one) => (one as { status?: { attached: boolean } }).status?.attached);
      };
      assert.deepEqual(await listed(), [false]);
      await cluster.patch("volumeattachments", key, { status: { attached: true } }, { subresource: "status" });
      assert.deepEqual(await listed(), [true]);
      await cluster.delete("volumeattachments", key, { uid: made.metadata.uid });
      assert.deepEqual(await listed(), []);
    },
  },
];

const evictions: readonly Case[] = [
  {
    name: "a NoExecute taint deletes the pods of its node with their own grace period, and marks them; pods that tolerate it stay",
    async run(fixture) {
      const nodeName = await createOwnNode(fixture);
      await createPod(fixture, "goes", { ...kept, nodeName });
      await createPod(fixture, "other", { ...kept, nodeName, tolerations: [{ key: "other", operator: "Exists" }] });
      await createPod(fixture, "stays", {
        ...kept,
        nodeName,
        tolerations: [{ key: noExecute.key, operator: "Exists" }],
      });
      for (const name of ["goes", "other", "stays"]) await readyPod(fixture, name);
      await taint(fixture, nodeName, [noExecute]);
      for (const name of ["goes", "other"]) {
        const { metadata, status } = await terminating(fixture, name);
        assert.equal((metadata as { deletionGracePeriodSeconds?: number }).deletionGracePeriodSeconds, 30);
        const why = status?.conditions?.find(({ type }) => type === "DisruptionTarget");
        assert.deepEqual(why && [why.status, "reason" in why && why.reason], ["True", "DeletionByTaintManager"]);
      }
      // A pod that comes to such a node goes as well.
      await createPod(fixture, "late", { ...kept, nodeName });
      await terminating(fixture, "late");
      assert.equal((await readPod(fixture, "stays")).metadata.deletionTimestamp, undefined);
    },
  },
  {
    name: "a pod that tolerates a taint for some seconds is deleted after them, unless the taint is gone by then",
    async run(fixture) {
      const nodeName = await createOwnNode(fixture);
      const tolerates = (tolerationSeconds: number) => {
        return { ...kept, nodeName, tolerations: [{ operator: "Exists", effect: "NoExecute", tolerationSeconds }] };
      };
      await createPod(fixture, "brief", tolerates(1));
      await createPod(fixture, "patient", tolerates(3));
      for (const name of ["brief", "patient"]) await readyPod(fixture, name);
      const startMs = performance.now();
      await taint(fixture, nodeName, [noExecute]);
      await terminating(fixture, "brief");
      assert.ok(performance.now() - startMs > 990, "a second has passed");
      await taint(fixture, nodeName, null);
      await fixture.cluster.sleep(3_000);
      assert.equal((await readPod(fixture, "patient")).metadata.deletionTimestamp, undefined);
    },
  },
];

const collections: readonly Case[] = [
  {
    name: "a terminating pod on a node that is out of service is deleted by force, but only if the node is not ready",
    async run(fixture) {
      const [down, up] = [await createOwnNode(fixture, "Unknown", "down"), await createOwnNode(fixture, "True", "up")];
      await createPod(fixture, "on-down", { ...kept, nodeName: down });
      await createPod(fixture, "on-up", { ...kept, nodeName: up });
      for (const name of ["on-down", "on-up"]) await readyPod(fixture, name);
      for (const node of [up, down]) await taint(fixture, node, [outOfService]);
      await terminating(fixture, "on-up");
      await eventually(
        "the end of the pod",
        () =>
          readPod(fixture, "on-down").then(
            () => false,
            ({ code }) => code === 404,
          ),
        (isGone) => isGone,
        45_000,
      );
      assert.notEqual((await readPod(fixture, "on-up")).metadata.deletionTimestamp, undefined);
    },
  },
  {
    name: "a pod whose node is gone is deleted by force, and no other pod is",
    slow: true,
    async run(fixture) {
      const { cluster } = fixture;
      const nodeName = await createOwnNode(fixture);
      await createPod(fixture, "orphan", { ...kept, nodeName });
      await createPod(fixture, "other", kept);
      for (const name of ["orphan", "other"]) await readyPod(fixture, name);
      const node = await cluster.get("nodes", { namespace: "", name: nodeName });
      await cluster.delete("nodes", { namespace: "", name: nodeName }, { uid: node.metadata.uid });
      assert.equal((await readPod(fixture, "orphan")).metadata.deletionTimestamp, undefined);
      await gonePod(fixture, "orphan", 100_000);
      assert.equal((await readPod(fixture, "other")).metadata.deletionTimestamp, undefined);
    },
  },
];

const replacements: readonly Case[] = [
  {
    name: "a Node is deleted in the version that was read: a status in between refuses the deletion with 409",
    async run(fixture) {
      const { cluster } = fixture;
      const key = { namespace: "", name: await createOwnNode(fixture) };
      const { uid, resourceVersion } = (await cluster.get("nodes", key)).metadata;
      await cluster.patch("nodes", key, { status: { nodeInfo: { bootID: "boot" } } }, { subresource: "status" });
      const error = await rejection(cluster.delete("nodes", key, { uid, resourceVersion }));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      const changed = await cluster.get("nodes", key);
      await cluster.delete("nodes", key, { uid, resourceVersion: changed.metadata.resourceVersion });
      assert.equal((await rejection(cluster.get("nodes", key))).code, 404);
      assert.equal((await rejection(cluster.delete("nodes", key, { uid, resourceVersion }))).code, 404);
    },
  },
  {
    name: "a Node is made with labels, annotations, taints, cordon, ranges and provider, and only where none has its name",
    async run({ cluster, namespace }) {
      const name = `${namespace}-node`;
      const key = { namespace: "", name };
      const texts = { "test.sluice.dev/a": "1" };
      const range = "10.9.8.0/24";
      const ranges = { podCIDR: range, podCIDRs: [range], providerID: `test:///${name}` };
      const spec = { ...ranges, unschedulable: true, taints: [noExecute] };
      const body = { apiVersion: "v1", kind: "Node", metadata: { name, labels: texts, annotations: texts }, spec };
      const made = await cluster.create("nodes", "", body);
      const error = await rejection(cluster.create("nodes", "", { ...body, metadata: { name } }));
      assert.deepEqual([error.code, error.reason], [409, "AlreadyExists"]);
      const { metadata, spec: found = {} } = await cluster.get("nodes", key);
      assert.equal(metadata.uid, made.metadata.uid);
      assert.deepEqual(
        [metadata.labels?.["test.sluice.dev/a"], metadata.annotations?.["test.sluice.dev/a"]],
        ["1", "1"],
      );
      const { podCIDR, podCIDRs, providerID, unschedulable, taints = [] } = found;
      assert.deepEqual([{ podCIDR, podCIDRs, providerID }, unschedulable], [ranges, true]);
      assert.deepEqual(
        taints.filter(({ key }) => key === noExecute.key),
        [noExecute],
      );
      await cluster.delete("nodes", key, { uid: metadata.uid });
    },
  },
];

export const nodeCases: readonly Case[] = [
  ...objects,
  ...reports,
  ...replacements,
  ...bound,
  ...evictions,
  ...collections,
];

/** A Node for this case only. */
async function createOwnNode({ cluster, namespace }: Fixture, ready = "True", suffix = "node"): Promise<string> {
  const name = `${namespace}-${suffix}`;
  const key = { namespace: "", name };
  await cluster.create("nodes", "", { metadata: { name } });
  const conditions = [{ type: "Ready", status: ready, lastTransitionTime: "2026-01-01T00:00:00Z" }];
  await cluster.patch("nodes", key, { status: { conditions } }, { subresource: "status" });
  return name;
}

async function taint({ cluster }: Fixture, name: string, taints: readonly object[] | null): Promise<void> {
  await cluster.patch("nodes", { namespace: "", name }, { spec: { taints } });
}

function readPod({ cluster, namespace }: Fixture, name: string): Promise<PodObject> {
  return cluster.get("pods", { namespace, name });
}

function terminating(fixture: Fixture, name: string): Promise<PodObject> {
  return eventually(
    `the deletion of ${name}`,
    () => readPod(fixture, name),
    ({ metadata }) => metadata.deletionTimestamp !== undefined,
  );
}
