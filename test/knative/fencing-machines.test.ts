/**
 * A mark on a Machine, on the real API server: the shipped function with its own account, with the rights and policies that are
 * rendered where the kind is listed, and with the settings that the README has users patch in. No machine is reset here.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { dump } from "js-yaml";
import { fencingNamespace, functionAccount } from "../../knative/render/fencing/names.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions } from "../../triggers/table.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createNode } from "../controlplane/nodes.ts";
import type { NodeObject } from "../fencing/cluster.ts";
import { askedBy, isWorkload, kubeconfigOf, tokenOf, workloadOf } from "../support/installed.ts";
import { type Built, Kubectl } from "../support/kubectl.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

const timeoutMs = 30_000;
const group = "cluster.x-k8s.io";
const machines = `/apis/${group}/v1beta1/namespaces/clusters/machines`;
const nodePath = "/api/v1/nodes/worker";
const leases = `/apis/coordination.k8s.io/v1/namespaces/${fencingNamespace}/leases`;
const mark = "example.com/broken";

const open = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const definition = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: `machines.${group}`, annotations: { "api-approved.kubernetes.io": "unapproved, a test" } },
  spec: {
    group,
    scope: "Namespaced",
    names: { plural: "machines", kind: "Machine" },
    versions: [
      {
        name: "v1beta1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: "object", properties: { spec: open, status: open } } },
        subresources: { status: {} },
      },
    ],
  },
} as const;

type Texts = Readonly<Record<string, string>>;

interface Machine {
  readonly metadata: { readonly name: string; readonly annotations?: Texts };
}

describe("a mark on a Machine, on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let kubectl: Kubectl;
  let admin: Api;
  let account: Api;
  let server: Server;
  let from: number;

  before(async () => {
    controlPlane = await startControlPlane({ nodes: 0 });
    kubectl = await Kubectl.open(controlPlane);
    admin = await Api.open(controlPlane, { userAgent: "sluice-test-administrator" });
    await kubectl.apply([definition]);
    await kubectl.waitForDefinitions();
    for (const name of [fencingNamespace, "clusters"]) await admin.post("/api/v1/namespaces", { metadata: { name } });
    const objects = await installation();
    await kubectl.apply(objects.filter((one) => !isWorkload(one)));
    const token = await tokenOf(admin, fencingNamespace, functionAccount);
    account = await Api.open({ ...controlPlane, token }, { userAgent: "sluice-test-functions" });
    await createNode(admin, { name: "worker", zone: "zone-a" });
    const { metadata } = await report("boot-1");
    await admin.post(machines, { apiVersion: `${group}/v1beta1`, kind: "Machine", metadata: { name: "m" }, spec: {} });
    const nodeRef = { apiVersion: "v1", kind: "Node", name: metadata.name, uid: metadata.uid };
    await admin.patch(`${machines}/m/status`, { status: { nodeRef } });
    await eventually("the policies", timeoutMs, async () =>
      (await written({ metadata: { labels: { a: "b" } } }, nodePath)) === 422 &&
      (await written({ spec: { a: "b" } })) === 422
        ? true
        : undefined,
    );
    from = await auditPosition(controlPlane.auditLog);
    const kubeconfig = await kubeconfigOf(controlPlane, admin, fencingNamespace, functionAccount);
    const settings = { ...workloadOf(objects, functionAccount).settings, PORT: "0", FENCE_STORM: "100%" };
    server = await Server.start({ kubeconfig, namespace: fencingNamespace, settings });
  });

  after(async () => {
    await server?.stop();
    await Promise.all([admin?.close(), account?.close(), kubectl?.close()]);
    await controlPlane?.stop();
  });

  /** What a user has who lists the kind, renders anew, and patches both settings in as the README says. */
  async function installation(): Promise<Built[]> {
    const kinds = { mirrored: [], owners: [], machines: [{ plural: "machines", group }] };
    const files = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions, kinds });
    const resources = ["fencing/functions.yaml", "fencing-policy/policies.yaml"].map((path) => {
      const name = path.replace("/", "-");
      return { name, text: files.get(path) ?? assert.fail(path) };
    });
    for (const { name, text } of resources) await kubectl.file(name, text);
    const patches = (await kubectl.patchesIn("README.md")).find((some) => JSON.stringify(some).includes("FENCE_MARK"));
    const text = dump({ resources: resources.map(({ name }) => name), patches });
    const built = await kubectl.buildFile(text);
    assert.equal(workloadOf(built, functionAccount).settings.FENCE_MACHINE_KINDS, `Machine.${group}`);
    return built;
  }

  /** What its kubelet reports. */
  function report(bootID: string): Promise<NodeObject> {
    const ready = { type: "Ready", status: "True", reason: "Played", lastTransitionTime: new Date() };
    const status = { conditions: [ready], nodeInfo: { bootID, systemUUID: "a-machine" } };
    return admin.patch<NodeObject>(`${nodePath}/status`, { status });
  }

  /** The code of the answer to a patch by the account of the function, which is not carried out. */
  async function written(body: object, path = `${machines}/m`): Promise<number> {
    const answer = await account.send("PATCH", `${path}?dryRun=All`, body, "application/merge-patch+json");
    await answer.body.dump();
    return answer.statusCode;
  }

  const annotate = (name: string, text: string | null) =>
    admin.patch<Machine>(`${machines}/${name}`, { metadata: { annotations: { [mark]: text } } });
  const untilNode = (what: string, isSo: (texts: Texts, node: NodeObject) => boolean) =>
    eventually(what, timeoutMs, async () => {
      const node = await admin.get<NodeObject>(nodePath);
      return isSo(node.metadata.annotations ?? {}, node) ? node : undefined;
    });

  test("the account writes the mark of a Machine and of a Node, and a policy lets it write nothing else of a Machine", async () => {
    for (const path of [`${machines}/m`, nodePath])
      assert.equal(await written({ metadata: { annotations: { [mark]: "x" } } }, path), 200, path);
    const others = [
      { metadata: { annotations: { "example.com/other": "x" } } },
      { metadata: { labels: { a: "b" } } },
      { metadata: { finalizers: ["example.com/a"] } },
      { spec: { providerID: "cloud:///other" } },
    ];
    for (const body of others) assert.equal(await written(body), 422, JSON.stringify(body));
    assert.equal(await written({ status: {} }, `${machines}/m/status`), 403, "RBAC gives no right to it");
    const { statusCode, body } = await account.send("DELETE", `${machines}/m?dryRun=All`);
    await body.dump();
    assert.equal(statusCode, 403);
  });

  test("its Node is fenced, and with the end of the fence the mark is gone; no right is missing", async () => {
    await annotate("m", "disk failed");
    const fenced = await untilNode("the fence", (texts) => texts["sluice.dev/fence-hold"] === "no-agent");
    assert.equal(fenced.spec.taints?.[0]?.key, "sluice.dev/fence");
    assert.equal(fenced.metadata.annotations?.[mark], undefined);
    await report("boot-2");
    await untilNode("the end of the fence", (texts, { spec }) => {
      const isClean = Object.keys(texts).every((key) => !key.startsWith("sluice.dev/"));
      return isClean && spec.taints === undefined;
    });
    const { metadata } = await admin.get<Machine>(`${machines}/m`);
    assert.equal(metadata.annotations?.[mark], undefined);
    await eventually("the record gone", timeoutMs, async () => {
      const { statusCode, body } = await admin.send("GET", `${leases}/fence-worker`);
      await body.dump();
      return statusCode === 404 ? true : undefined;
    });
    const { asked, forbidden } = await askedBy(controlPlane, from, fencingNamespace, functionAccount);
    assert.ok(asked.includes("patch machines") && asked.includes("list machines") && asked.includes("get machines"));
    assert.deepEqual(
      forbidden.filter((one) => one !== "patch machines/status" && one !== "delete machines"),
      [],
    );
  });
});
