/** The real controller of node health, and an API server that listens on another address than 127.0.0.1. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Api, eventually } from "./api.ts";
import { type ControlPlane, startControlPlane } from "./controlplane.ts";
import { createNode } from "./nodes.ts";
import { isFree } from "./ports.ts";

const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/** Any address of the loopback device stands for that of a bridge. */
const address = "127.0.0.2";

interface HealthOfNode {
  readonly spec: { readonly taints?: readonly { readonly key: string; readonly effect: string }[] };
  readonly status: { readonly conditions: readonly { readonly type: string; readonly status: string }[] };
}

describe("a control plane that looks after nodes", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;

  before(async () => {
    controlPlane = await startControlPlane({ nodes: 0, controllers: "node-health", address });
    api = await Api.open(controlPlane, { userAgent: "node-health-test" });
  });

  after(async () => {
    await api?.close();
    await controlPlane?.stop();
  });

  test("the API server listens on the address that it is given, with a certificate for it, and on no other", async () => {
    const { hostname, port } = new URL(controlPlane.url);
    assert.equal(hostname, address);
    assert.equal(await isFree(Number(port)), true, "127.0.0.1 is free");
    await controlPlane.restartApiServer();
    await api.get("/api/v1/namespaces/default");
  });

  test("a Node stays Ready while its Lease is renewed, and is Unknown and tainted soon after the last renewal", async () => {
    for (const name of ["speaks", "falls-silent"]) {
      await createNode(api, { name, zone: "zone-a" });
      const spec = { holderIdentity: name, leaseDurationSeconds: 40, renewTime: now() };
      await api.post(leases, { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name }, spec });
    }
    const started = performance.now();
    const silent = await eventually("a Node that is Unknown and tainted", 30_000, async () => {
      await renew("speaks");
      if (performance.now() - started < 3_000) await renew("falls-silent");
      const node = await read("falls-silent");
      // The controller adds the two taints one after the other.
      return readyOf(node) === "Unknown" && taintsOf(node).length > 1 ? node : undefined;
    });
    assert.ok(performance.now() - started > 3_000 + 4_000, "not before its time is over");
    const taints = ["NoExecute", "NoSchedule"].map((effect) => `node.kubernetes.io/unreachable ${effect}`);
    assert.deepEqual([...taintsOf(silent)].sort(), taints);
    const spoke = await read("speaks");
    assert.deepEqual([readyOf(spoke), taintsOf(spoke)], ["True", []]);
  });

  const now = () => new Date().toISOString().replace("Z", "000Z");

  async function renew(name: string): Promise<void> {
    await api.patch(`${leases}/${name}`, { spec: { renewTime: now() } });
  }

  function read(name: string): Promise<HealthOfNode> {
    return api.get<HealthOfNode>(`/api/v1/nodes/${name}`);
  }
});

function readyOf({ status }: HealthOfNode): string | undefined {
  return status.conditions.find(({ type }) => type === "Ready")?.status;
}

function taintsOf({ spec }: HealthOfNode): readonly string[] {
  return (spec.taints ?? []).map(({ key, effect }) => `${key} ${effect}`);
}
