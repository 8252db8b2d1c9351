/** The two accounts of fencing on a real API server with the rendered policies, and with rights that RBAC does not limit. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { agentAccount, fencingNamespace, functionAccount } from "../../knative/render/fencing/names.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { tokenOf } from "../support/installed.ts";
import { Kubectl } from "../support/kubectl.ts";

/** A namespace with a group. */
export const elsewhere = "db";
/** As long as the name of a Node may be that is fenced. */
export const longName = `node-${"a".repeat(242)}`;

const timeoutMs = 20_000;
const leases = "/apis/coordination.k8s.io/v1/namespaces";
export const leasePath = (name = "", namespace = fencingNamespace): string => `${leases}/${namespace}/leases/${name}`;
export const nodePath = (name = ""): string => `/api/v1/nodes/${name}`;

/** One write, that is not carried out. */
export interface Write {
  readonly method: "POST" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: object;
}

/** Both of fencing, and one of another namespace that is called as the first one. */
const accounts = [
  { name: functionAccount, namespace: fencingNamespace },
  { name: agentAccount, namespace: fencingNamespace },
  { name: functionAccount, namespace: elsewhere },
];

export class PolicyStage {
  readonly controlPlane: ControlPlane;
  readonly admin: Api;
  readonly functions: Api;
  readonly #kubectl: Kubectl;
  readonly #opened: Api[] = [];

  private constructor(controlPlane: ControlPlane, admin: Api, functions: Api, kubectl: Kubectl) {
    this.controlPlane = controlPlane;
    this.admin = admin;
    this.functions = functions;
    this.#kubectl = kubectl;
  }

  /** Resolves when both policies refuse. */
  static async start(): Promise<PolicyStage> {
    const controlPlane = await startControlPlane({ nodes: 0, controllers: "all" });
    const admin = await Api.open(controlPlane, { userAgent: "sluice-test-administrator" });
    for (const name of [fencingNamespace, elsewhere]) await admin.post("/api/v1/namespaces", { metadata: { name } });
    for (const { name, namespace } of accounts)
      await admin.post(`/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } });
    await bindEverything(admin);
    const token = await tokenOf(admin, fencingNamespace, functionAccount);
    const functions = await Api.open({ ...controlPlane, token }, { userAgent: "sluice-test-functions" });
    const stage = new PolicyStage(controlPlane, admin, functions, await Kubectl.open(controlPlane));
    await stage.apply("base/fencing-policy");
    return stage;
  }

  /** Applies the policies of a folder below `knative`. Resolves when both of them decide. */
  async apply(folder: string): Promise<void> {
    await this.#kubectl.apply(await this.#kubectl.build(folder));
    const lease: Write = { method: "POST", path: leasePath(), body: { metadata: { name: "not-there" } } };
    const node: Write = { ...lease, path: nodePath(), body: { metadata: { name: "not-there" }, status: reported } };
    const isDeleting = folder.endsWith("deletion");
    await eventually("the policies", timeoutMs, async () => {
      const [ofLeases, ofNodes] = [await refusalOf(this.functions, lease), await refusalOf(this.functions, node)];
      const isAboutStatus = ofNodes.includes("without a status");
      return ofLeases !== "" && ofNodes !== "" && isAboutStatus === isDeleting ? true : undefined;
    });
  }

  /** The token of a pod of the agents on an existing Node, as the kubelet gets it. */
  async tokenOn(node: string): Promise<string> {
    const inNamespace = `/api/v1/namespaces/${fencingNamespace}`;
    const name = `agent-${randomUUID()}`;
    const containers = [{ name: "agent", image: "agent:1" }];
    const tolerations = [{ operator: "Exists" }];
    const spec = { nodeName: node, serviceAccountName: agentAccount, containers, tolerations };
    const pod = await this.admin.post<{ metadata: { uid: string } }>(`${inNamespace}/pods`, {
      metadata: { name },
      spec,
    });
    const boundObjectRef = { apiVersion: "v1", kind: "Pod", name, uid: pod.metadata.uid };
    const path = `${inNamespace}/serviceaccounts/${agentAccount}/token`;
    const { status } = await this.admin.post<{ status: { token: string } }>(path, { spec: { boundObjectRef } });
    return status.token;
  }

  /** Of the account in another namespace that is called as that of the functions. */
  tokenOfNamesake(): Promise<string> {
    return tokenOf(this.admin, elsewhere, functionAccount);
  }

  /** An API for this token, until the end of the stage. */
  async open(token: string): Promise<Api> {
    const api = await Api.open({ ...this.controlPlane, token }, { userAgent: "sluice-test-agent" });
    this.#opened.push(api);
    return api;
  }

  async stop(): Promise<void> {
    await Promise.all([this.admin, this.functions, ...this.#opened].map((api) => api.close()));
    await this.#kubectl.close();
    await this.controlPlane.stop();
  }
}

/** No account of Sluice makes a Node that has a status. */
const reported = { nodeInfo: { bootID: "a boot" } };

/** RBAC lets everything come as far as the policies. */
async function bindEverything(admin: Api): Promise<void> {
  const group = "rbac.authorization.k8s.io";
  const subjects = accounts.map((account) => ({ kind: "ServiceAccount", ...account }));
  await admin.post(`/apis/${group}/v1/clusterrolebindings`, {
    metadata: { name: "everything" },
    roleRef: { apiGroup: group, kind: "ClusterRole", name: "cluster-admin" },
    subjects,
  });
}

/** The message of a refusal by a policy; empty where the write would be carried out. Fails for every other answer. */
export async function refusalOf(api: Api, { method, path, body }: Write): Promise<string> {
  const type = method === "PATCH" ? "application/merge-patch+json" : undefined;
  const { statusCode, body: answer } = await api.send(method, `${path}?dryRun=All`, body, type);
  const { message = "" } = (await answer.json()) as { message?: string };
  if (statusCode < 300) return "";
  assert.match(message, /ValidatingAdmissionPolicy 'sluice-fencing-\w+' .*denied request: /s, `${method} ${path}`);
  assert.equal(statusCode, 422, message);
  return message.replace(/^.*denied request: /s, "");
}
