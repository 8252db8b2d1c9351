/** A whole fence on the stage of the policies: the shipped function and the shipped agent with tokens of their accounts. */
import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { agentAccount, fencingNamespace, functionAccount } from "../../knative/render/fencing/names.ts";
import { eventually } from "../controlplane/api.ts";
import { type AuditEntry, readAudit } from "../controlplane/audit.ts";
import { createNode } from "../controlplane/nodes.ts";
import { freePort } from "../controlplane/ports.ts";
import { type Launched, launch } from "../controlplane/processes.ts";
import { kubeconfigOf } from "../support/installed.ts";
import { Server } from "../support/server.ts";
import type { NodeObject } from "./cluster.ts";
import { elsewhere, nodePath, type PolicyStage } from "./policy-stage.ts";

const root = join(import.meta.dirname, "../..");
const timeoutMs = 45_000;
const key = (name: string) => `sluice.dev/${name}`;
const ready = (status: string) => ({ type: "Ready", status, reason: "Played", lastTransitionTime: new Date() });
const writing = new Set(["create", "patch", "update", "delete"]);

/** A Node whose kubelet the test plays, the agent on it, and a group with a pod there. */
export class FencedLife {
  readonly node = "fenced";
  /** The agent is a process of this machine, and has its boot id. */
  readonly bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  readonly #stage: PolicyStage;
  readonly #folder = mkdtempSync(join(tmpdir(), "sluice-policy-"));
  #agent: Launched | undefined;
  #server: Server | undefined;

  constructor(stage: PolicyStage) {
    this.#stage = stage;
  }

  /** Resolves when the agent has made its Lease, and the group has its pod on the node. */
  async start(): Promise<void> {
    const { admin, controlPlane } = this.#stage;
    await createNode(admin, { name: this.node, zone: "zone-a" });
    await this.report(this.bootId, "True");
    await this.#startGroup();
    await this.#startAgent();
    await eventually("the Lease of the agent", timeoutMs, async () => (await this.renewals()) ?? undefined);
    const kubeconfig = await kubeconfigOf(controlPlane, admin, fencingNamespace, functionAccount);
    const settings = { FUNCTION: functionAccount, FENCE_NAMESPACE: fencingNamespace, FENCE_STORM: "100%" };
    this.#server = await Server.start({ kubeconfig, namespace: fencingNamespace, settings });
  }

  async #startGroup(): Promise<void> {
    const labels = { name: elsewhere };
    const nodeSelector = { "kubernetes.io/hostname": this.node };
    const template = { metadata: { labels }, spec: { nodeSelector, containers: [{ name: "db", image: "db:1" }] } };
    const spec = { serviceName: elsewhere, replicas: 1, selector: { matchLabels: labels }, template };
    const metadata = { name: elsewhere, labels: { "rollout-group": elsewhere } };
    await this.#stage.admin.post(`/apis/apps/v1/namespaces/${elsewhere}/statefulsets`, { metadata, spec });
    await this.untilPodReady();
  }

  async #startAgent(): Promise<void> {
    const { controlPlane } = this.#stage;
    const { hostname, port } = new URL(controlPlane.url);
    writeFileSync(join(this.#folder, "token"), await this.#stage.tokenOn(this.node));
    copyFileSync(controlPlane.caFile, join(this.#folder, "ca.crt"));
    writeFileSync(this.#resetFile, "");
    const env = {
      PATH: process.env.PATH,
      NODE_NAME: this.node,
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port,
      AGENT_CREDENTIALS: this.#folder,
      AGENT_RUN_FOLDER: this.#folder,
      AGENT_STATE_FOLDER: join(this.#folder, "state"),
      AGENT_WATCHDOG: join(this.#folder, "no-watchdog"),
      // The real one would reset the machine that the test runs on.
      AGENT_RESET_FILE: this.#resetFile,
      AGENT_PORT: String(await freePort()),
      AGENT_RENEW_EVERY: "500ms",
    };
    this.#agent = launch(process.execPath, [join(root, "functions/fence-node/agent/main.ts")], { env, output: "pipe" });
  }

  get #resetFile(): string {
    return join(this.#folder, "reset");
  }

  /** What its kubelet reports. */
  async report(bootID: string, isReady: "True" | "Unknown"): Promise<void> {
    const status = { conditions: [ready(isReady)], nodeInfo: { bootID, systemUUID: "a-machine" } };
    await this.#stage.admin.patch(`${nodePath(this.node)}/status`, { status });
  }

  annotate(annotations: Readonly<Record<string, string>>): Promise<unknown> {
    return this.#stage.admin.patch(nodePath(this.node), { metadata: { annotations } });
  }

  /** How often the agent has renewed its Lease; undefined while there is none. */
  async renewals(): Promise<string | undefined> {
    return (await this.lease(`agent-${this.node}`))?.[key("agent-renewals")];
  }

  /** The annotations of a Lease of fencing; undefined where there is none. */
  async lease(name: string): Promise<Readonly<Record<string, string>> | undefined> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${fencingNamespace}/leases/${name}`;
    const { statusCode, body } = await this.#stage.admin.send("GET", path);
    const { metadata } = (await body.json()) as { metadata: { annotations?: Readonly<Record<string, string>> } };
    return statusCode === 404 ? undefined : (metadata.annotations ?? {});
  }

  /** Resolves when the agent has renewed its Lease with a fence armed, and has reset its machine. */
  async untilReset(): Promise<void> {
    await eventually("the reset", timeoutMs, async () => (statSync(this.#resetFile).size > 0 ? true : undefined));
    const before = await this.renewals();
    await eventually("a renewal under a fence", timeoutMs, async () =>
      (await this.renewals()) === before ? undefined : true,
    );
  }

  /** As a reset does. */
  async endAgent(): Promise<void> {
    this.#agent?.signal("SIGKILL");
    await this.#agent?.ended;
  }

  /** Resolves to the Node once it is as awaited. */
  untilNode(what: string, isSo: (node: NodeObject) => boolean): Promise<NodeObject> {
    return eventually(what, timeoutMs, async () => {
      const node = await this.#stage.admin.get<NodeObject>(nodePath(this.node));
      return isSo(node) ? node : undefined;
    });
  }

  /** The uid of the pod of the group, once it is Ready on a node. */
  async untilPodReady(): Promise<string> {
    return eventually("the pod", timeoutMs, async () => {
      const { statusCode, body } = await this.#stage.admin.send("GET", `/api/v1/namespaces/${elsewhere}/pods/db-0`);
      const { metadata, status } = (await body.json()) as PodObject;
      const isReady = status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True");
      return statusCode === 200 && isReady && metadata.deletionTimestamp === undefined ? metadata.uid : undefined;
    });
  }

  /** All writes of both accounts since the start of the control plane, and what the API server answered. */
  async writes(): Promise<readonly AuditEntry[]> {
    const users = [functionAccount, agentAccount].map((name) => `system:serviceaccount:${fencingNamespace}:${name}`);
    const entries = await Array.fromAsync(readAudit(this.#stage.controlPlane.auditLog, {}, () => {}));
    return entries.filter(
      ({ user, verb, userAgent }) => users.includes(user) && writing.has(verb) && !userAgent.startsWith("sluice-test"),
    );
  }

  /** For a test that fails. */
  print(): void {
    console.error(this.#agent?.printed());
    for (const line of this.#server?.log ?? []) console.error(JSON.stringify(line));
  }

  async stop(): Promise<void> {
    await this.endAgent();
    const end = await this.#server?.stop();
    if (end !== undefined) assert.equal(end.code, 0);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

interface PodObject {
  readonly metadata: { readonly uid: string; readonly deletionTimestamp?: string };
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
