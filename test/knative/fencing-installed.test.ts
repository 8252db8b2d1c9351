/**
 * The overlay of fencing on a real API server, beside the overlay `standalone`: it is admitted, and its accounts have the rights
 * that they use, and no other.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { agentAccount, fencingNamespace, functionAccount } from "../../knative/render/fencing/names.ts";
import { Api, type ApiError, eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { freePort } from "../controlplane/ports.ts";
import { type Launched, launch } from "../controlplane/processes.ts";
import { isWebhook, isWorkload, kubeconfigOf, tokenOf, workloadOf } from "../support/installed.ts";
import { type Built, isDefinition, Kubectl } from "../support/kubectl.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { carelessRights, rightsOf, textOf, usesOf } from "./rights.ts";

const timeoutMs = 60_000;
/** The standard installation serves it, so that its guard policies know which accounts may write ledgers there. */
const served = "db";
const key = (name: string) => `sluice.dev/${name}`;
/** It reads a pod that another function has reserved in a ledger and no list shows. No function does so here. */
const forReservations = "get pods in every namespace";
/** Agents of this machine run in it. */
const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
const otherBootId = "00000000-0000-4000-8000-000000000002";
const agentProgram = join(import.meta.dirname, "../../functions/fence-node/agent/main.ts");

interface Role extends Built {
  readonly rules: readonly { readonly resources: readonly string[] }[];
}

interface NodeObject {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: { readonly taints?: readonly { readonly key: string }[] };
  readonly status: { readonly nodeInfo: object };
}

interface PodObject extends Built {
  readonly metadata: Built["metadata"] & { readonly uid: string };
}

suite("the overlay of fencing on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let kubectl: Kubectl;
  let objects: readonly Built[];
  before(async () => {
    controlPlane = await startControlPlane({ nodes: 2, podsReadyAfterMs: 100 });
    api = await Api.open(controlPlane, { userAgent: "sluice-test-administrator" });
    kubectl = await Kubectl.open(controlPlane);
    await kubectl.apply(await kubectl.build("base/crds"));
    objects = await kubectl.build("overlays/fencing");
    await kubectl.apply(objects.filter((one) => !isWorkload(one)));
    await kubectl.run("create", "namespace", served);
    const beside = await kubectl.buildIn(served, "standalone");
    await kubectl.apply(beside.filter((one) => !isWorkload(one) && !isWebhook(one) && !isDefinition(one)));
  });
  after(async () => {
    await kubectl?.close();
    await api?.close();
    await controlPlane?.stop();
  });

  const node = (name: string) => api.get<NodeObject>(`/api/v1/nodes/${name}`);
  const annotate = (name: string, annotations: Readonly<Record<string, string | null>>) =>
    api.patch(`/api/v1/nodes/${name}`, { metadata: { annotations } });
  /** What a kubelet reports. */
  const report = (name: string, bootID: string, ready: "True" | "Unknown") => {
    const conditions = [{ type: "Ready", status: ready, lastTransitionTime: new Date().toISOString() }];
    const nodeInfo = { bootID, systemUUID: `uuid-of-${name}` };
    return api.patch(`/api/v1/nodes/${name}/status`, { status: { conditions, nodeInfo } });
  };
  const shows = (name: string, annotation: string, value: string) =>
    eventually(`${name} shows ${annotation} ${value}`, timeoutMs, async () => {
      const { annotations } = (await node(name)).metadata;
      return annotations?.[key(annotation)] === value ? annotations : undefined;
    });
  const isClean = (name: string) =>
    eventually(`${name} is clean`, timeoutMs, async () => {
      const { metadata, spec } = await node(name);
      const left = Object.keys(metadata.annotations ?? {}).filter((one) => one.startsWith(key("")));
      const record = await kubectl.run("get", "lease", `fence-${name}`, "-n", fencingNamespace, "--ignore-not-found");
      return left.length === 0 && (spec.taints ?? []).length === 0 && record === "" ? true : undefined;
    });

  /** Starts the shipped agent, as the pod of the DaemonSet on that node has it, but for what it could do to this machine. */
  async function startAgent(name: string): Promise<Launched> {
    const folder = join(controlPlane.directory, `agent-${name}`);
    await mkdir(folder);
    const pods = `/api/v1/namespaces/${fencingNamespace}/pods`;
    const { metadata } = await api.post<PodObject>(pods, podOn(name));
    const account = `/api/v1/namespaces/${fencingNamespace}/serviceaccounts/${agentAccount}/token`;
    const boundObjectRef = { apiVersion: "v1", kind: "Pod", name: metadata.name, uid: metadata.uid };
    const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { boundObjectRef } };
    const { status } = await api.post<{ status: { token: string } }>(account, request);
    await writeFile(join(folder, "token"), status.token);
    await copyFile(controlPlane.caFile, join(folder, "ca.crt"));
    const { hostname, port } = new URL(controlPlane.url);
    const env = {
      NODE_NAME: name,
      FENCE_NAMESPACE: fencingNamespace,
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port,
      AGENT_CREDENTIALS: folder,
      AGENT_WATCHDOG: join(folder, "none"),
      AGENT_RUN_FOLDER: folder,
      AGENT_STATE_FOLDER: folder,
      AGENT_PORT: String(await freePort()),
      AGENT_RENEW_EVERY: "500ms",
    };
    return launch(process.execPath, [agentProgram], { env, output: "pipe" });
  }

  /** Starts the shipped functions, by their own account. */
  async function startFunctions(): Promise<Server> {
    const { account, settings } = workloadOf(objects, functionAccount);
    const kubeconfig = await kubeconfigOf(controlPlane, api, fencingNamespace, account);
    const own = { FENCE_NAMESPACE: fencingNamespace, FENCE_STORM: "100%", PORT: "0" };
    return Server.start({ kubeconfig, namespace: fencingNamespace, settings: { ...settings, ...own } });
  }

  /** True if the account of the functions may make a ledger. None is made. Throws what is no refusal of the guard policies. */
  async function mayWriteLedgers(): Promise<boolean> {
    const { url, caFile } = controlPlane;
    const token = await tokenOf(api, fencingNamespace, functionAccount);
    const own = await Api.open({ url, caFile, token }, { userAgent: "sluice-test-functions" });
    const metadata = { name: "sluice-other", annotations: { [key("group")]: "other" } };
    try {
      await own.post(`/apis/coordination.k8s.io/v1/namespaces/${served}/leases?dryRun=All`, { metadata, spec: {} });
      return true;
    } catch (error) {
      assert.match((error as ApiError).message, /sluice-guard-ledgers\.db.* edit on ledgers\.sluice\.dev/s);
      return false;
    } finally {
      await own.close();
    }
  }

  /** A pod as the DaemonSet makes it there. */
  function podOn(nodeName: string): Built {
    const workload = objects.filter(isWorkload).find(({ kind }) => kind === "DaemonSet") ?? assert.fail("no DaemonSet");
    const { metadata, spec } = workload.spec.template as unknown as {
      readonly metadata: object;
      readonly spec: object;
    };
    const name = `${agentAccount}-${nodeName}`;
    return {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { ...metadata, name, namespace: fencingNamespace },
      spec: { ...spec, nodeName },
    } as Built;
  }

  test("every object of both overlays is accepted, and so are the pods, of their priorities and as privileged as they are", async () => {
    for (const overlay of ["overlays/fencing", "overlays/fencing-node-deletion"]) {
      const built = await kubectl.build(overlay);
      const output = await kubectl.apply(built, "--dry-run=server");
      assert.equal(output.length, built.length);
      for (const line of output) assert.match(line, /serverside-applied \(server dry run\)$/);
    }
    const pod = podOn("node-2");
    await kubectl.apply([pod], "--dry-run=server");
    const elsewhere = { ...pod, metadata: { ...pod.metadata, namespace: "restricted" } } as Built;
    const level = { "pod-security.kubernetes.io/enforce": "baseline" };
    await api.post("/api/v1/namespaces", {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "restricted", labels: level },
    });
    await assert.rejects(kubectl.apply([elsewhere], "--dry-run=server"), /violates PodSecurity/);
  });

  test("without the right that the guard policies ask for, no ledger is written, the fence waits before the taint, and the log names the right", async () => {
    const roles = objects.filter((one): one is Role => one.kind === "ClusterRole");
    const role = roles.find(({ metadata }) => metadata.name === `sluice:${functionAccount}`) ?? assert.fail("no role");
    const path = `/apis/rbac.authorization.k8s.io/v1/clusterroles/${role.metadata.name}`;
    const give = async (rules: Role["rules"], isPermitted: boolean) => {
      await api.request("PUT", path, { ...role, rules });
      const isRead = async () => (await mayWriteLedgers()) === isPermitted || undefined;
      await eventually("the rights and the policies read", timeoutMs, isRead);
    };
    await give(
      role.rules.filter(({ resources }) => !resources.includes("ledgers")),
      false,
    );
    const group = await createGroup(controlPlane, { name: "db", namespace: served, zones: 1, pods: 1 });
    await waitForGroupReady(controlPlane, group);
    await report("node-1", bootId, "True");
    const server = await startFunctions();
    try {
      await annotate("node-1", { [key("unhealthy")]: "disk failed" });
      await shows("node-1", "fence-hold", "ledger");
      await eventually("the refusal in the log", timeoutMs, async () =>
        server.log.some((line) => /edit on ledgers\.sluice\.dev/.test(JSON.stringify(line))) ? true : undefined,
      );
      assert.deepEqual((await node("node-1")).spec.taints ?? [], []);
      assert.equal(await kubectl.run("get", "leases", "-n", served, "-o", "name"), "");
      await annotate("node-1", { [key("unhealthy")]: null });
      await isClean("node-1");
    } catch (error) {
      for (const line of server.log) console.error(JSON.stringify(line));
      throw error;
    } finally {
      await server.stop();
    }
    await give(role.rules, true);
  });

  test("the shipped function and the shipped agent, each by its own account, use each right that they have and lack none", async (context) => {
    const from = await auditPosition(controlPlane.auditLog);
    for (const name of ["node-1", "node-2"]) await report(name, bootId, "True");
    const agent = await startAgent("node-2");
    context.after(() => agent.stop(20_000));
    const server = await startFunctions();
    try {
      // A node without an agent, with a pod of a group: it has another boot.
      await annotate("node-1", { [key("unhealthy")]: "disk failed" });
      await shows("node-1", "fence-hold", "no-agent");
      await report("node-1", otherBootId, "True");
      await api.delete(`/api/v1/namespaces/${served}/pods/db-zone-a-0`);
      await isClean("node-1");

      // A node with an agent: a person confirms that it is off, and it comes back.
      await annotate("node-2", { [key("unhealthy")]: "disk failed" });
      await report("node-2", bootId, "Unknown");
      const annotations = await shows("node-2", "fence-hold", "not-armed");
      await annotate("node-2", { [key("fence-confirmed")]: annotations[key("fence-id")] ?? "" });
      await shows("node-2", "fence-phase", "fenced");
      await report("node-2", otherBootId, "True");
      await isClean("node-2");
    } catch (error) {
      for (const line of server.log) console.error(JSON.stringify(line));
      console.error(agent.printed());
      throw error;
    } finally {
      await Promise.all([server.stop(), agent.stop(20_000)]);
    }
    const accounts = [functionAccount, agentAccount];
    const granted = new Map(accounts.map((name) => [name, rightsOf(objects, fencingNamespace, name)] as const));
    for (const [name, { used, missing }] of await usesOf(controlPlane, api, from, fencingNamespace, granted)) {
      // No object is of the resource `ledgers`: the guard policies ask for the right to it.
      const rights = (granted.get(name) ?? []).filter(({ resource }) => resource !== "ledgers");
      context.diagnostic(`${name}: ${[...used].map(([right, times]) => `${textOf(right)} (${times})`).join(", ")}`);
      assert.deepEqual(missing, [], `${name} lacks a right`);
      const unused = rights.filter((right) => used.get(right) === 0);
      const shown = unused.map((right) => `${textOf(right)} in ${right.namespace ?? "every namespace"}`);
      const expected = name === functionAccount ? [forReservations] : [];
      assert.deepEqual(shown, expected, `${name} has a right that it does not use`);
      assert.deepEqual(carelessRights(rights).map(textOf), []);
    }
  });
});
