/** `watch-node-health` as the overlay of fencing installs it, on a real API server: with its account, rights and policies. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { fencingNamespace, functionAccount } from "../../knative/render/fencing/names.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createNode } from "../controlplane/nodes.ts";
import { askedBy, kubeconfigOf, tokenOf, workloadOf } from "../support/installed.ts";
import { Kubectl } from "../support/kubectl.ts";
import { headersOf, post } from "../support/posted.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

const mark = "sluice.dev/unhealthy";
const nodePath = (name: string) => `/api/v1/nodes/${name}`;
/** A tick of its own schedule, as the PingSource posts it. */
const tick = headersOf("dev.knative.sources.ping", { "ce-source": "/pingsources/watch-node-health-due" });
/** What the account of the installation consists of, and what limits it. The workloads would not run here. */
const isOfAccount = /^(Namespace|ServiceAccount|(Cluster)?Role(Binding)?|ValidatingAdmissionPolicy(Binding)?)$/;

interface Marked {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}

describe("the health of Nodes on a real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let admin: Api;
  let kubectl: Kubectl;

  before(async () => {
    controlPlane = await startControlPlane({ nodes: 0 });
    admin = await Api.open(controlPlane, { userAgent: "sluice-test-administrator" });
    kubectl = await Kubectl.open(controlPlane);
  });

  after(async () => {
    await kubectl?.close();
    await admin?.close();
    await controlPlane?.stop();
  });

  async function report(name: string, status: "True" | "Unknown"): Promise<void> {
    const condition = { type: "Ready", status, reason: "Played", lastTransitionTime: new Date() };
    await admin.patch(`${nodePath(name)}/status`, { status: { conditions: [condition] } });
  }

  const markOf = async (name: string) => (await admin.get<Marked>(nodePath(name))).metadata.annotations?.[mark];

  /** With a tick for each read of the Node. */
  const untilMark = (server: Server, what: string, isSo: (text: string | undefined) => boolean) =>
    eventually(what, 30_000, async () => {
      await post(server, tick);
      return isSo(await markOf("silent")) ? true : undefined;
    });

  /** Resolves when the policies decide, because they begin to some seconds after they were made. */
  async function untilLimited(): Promise<void> {
    const token = await tokenOf(admin, fencingNamespace, functionAccount);
    const own = await Api.open({ ...controlPlane, token }, { userAgent: "sluice-test-functions" });
    const body = { metadata: { annotations: { a: "b" } } };
    await eventually("a refusal of another annotation", 30_000, async () => {
      const path = `${nodePath("silent")}?dryRun=All`;
      const { statusCode, body: answer } = await own.send("PATCH", path, body, "application/merge-patch+json");
      const { message = "" } = (await answer.json()) as { message?: string };
      return statusCode === 422 && message.includes("no other label or annotation") ? true : undefined;
    });
    await own.close();
  }

  test("a silent Node gets the mark, loses it when it is Ready, and keeps that of another client; no right is missing", async () => {
    const objects = await kubectl.build("overlays/fencing");
    await kubectl.apply(objects.filter(({ kind }) => isOfAccount.test(kind)));
    for (const name of ["silent", "marked", "well"]) await createNode(admin, { name, zone: "zone-a" });
    await admin.patch(nodePath("marked"), { metadata: { annotations: { [mark]: "disk failed" } } });
    const { account, settings } = workloadOf(objects, functionAccount);
    assert.match(settings.FUNCTION ?? "", /\bwatch-node-health\b/);
    const kubeconfig = await kubeconfigOf(controlPlane, admin, fencingNamespace, account);
    const own = { FUNCTION: "watch-node-health", FENCE_NAMESPACE: fencingNamespace, FENCE_STORM: "100%" };
    const serving = { kubeconfig, namespace: fencingNamespace, settings: { ...own, NODE_HEALTH_AFTER: "1s" } };
    const [server] = await Promise.all([Server.start(serving), untilLimited()]);
    for (const name of ["silent", "marked"]) await report(name, "Unknown");
    await untilMark(server, "the mark", (text) => text?.startsWith("watch-node-health: ") === true);
    for (const name of ["silent", "marked"]) await report(name, "True");
    await untilMark(server, "the end of the mark", (text) => text === undefined);
    assert.equal(await markOf("marked"), "disk failed");
    const { items } = await admin.get<{ items: readonly { reason: string; involvedObject: { name: string } }[] }>(
      "/api/v1/namespaces/default/events",
    );
    const sent = items.filter(({ reason }) => /^Node(Unm|M)arked$/.test(reason)).map(({ reason }) => reason);
    assert.deepEqual(sent.sort(), ["NodeMarked", "NodeUnmarked"]);
    assert.equal((await server.stop()).code, 0);
    const { asked, forbidden } = await askedBy(controlPlane, 0, fencingNamespace, account);
    assert.deepEqual(forbidden, []);
    for (const request of ["list nodes", "get nodes", "patch nodes", "get leases", "create events"])
      assert.ok(asked.includes(request), `${request} of ${asked}`);
  });
});
