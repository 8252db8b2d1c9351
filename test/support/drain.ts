/** Nodes for pods of a group, and the real kubectl that drains them. */
import type { Api } from "../controlplane/api.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { createNode } from "../controlplane/nodes.ts";
import type { Pod } from "../controlplane/podstatus.ts";
import { type End, launch } from "../controlplane/processes.ts";

/** Node labels that the group's pods select. */
export function nodeLabelsOf(group: string): Readonly<Record<string, string>> {
  return { "test.sluice.dev/group": group };
}

/**
 * Adds nodes for the group's pods of a zone, each with a pod of the DaemonSet `agent`. Their names are GROUP-ZONE-N, with N
 * counted from `first`.
 */
export async function addNodes(
  api: Api,
  group: { readonly name: string; readonly namespace: string },
  zone: string,
  count: number,
  first = 1,
): Promise<void> {
  if (count === 0) return;
  const nodes = Array.from({ length: count }, (_, index) => `${group.name}-${zone}-${first + index}`);
  for (const name of nodes) await createNode(api, { name, zone, labels: nodeLabelsOf(group.name) });
  const daemonSet = await ensureDaemonSet(api, group.namespace);
  for (const nodeName of nodes) {
    await api.post(`/api/v1/namespaces/${group.namespace}/pods`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: `agent-${nodeName}`,
        labels: { app: "agent" },
        ownerReferences: [
          { apiVersion: "apps/v1", kind: "DaemonSet", name: "agent", uid: daemonSet, controller: true },
        ],
      },
      spec: { nodeName, containers: [{ name: "agent", image: "agent:1" }] },
    });
  }
}

/** Creates the DaemonSet and returns its uid. No controller acts for it, so the code that adds a node also adds its pod. */
async function ensureDaemonSet(api: Api, namespace: string): Promise<string> {
  const path = `/apis/apps/v1/namespaces/${namespace}/daemonsets`;
  const known = await api.get<{ items: { metadata: { uid: string } }[] }>(path);
  if (known.items[0] !== undefined) return known.items[0].metadata.uid;
  const labels = { app: "agent" };
  const { metadata } = await api.post<{ metadata: { uid: string } }>(path, {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name: "agent" },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "agent", image: "agent:1" }] } },
    },
  });
  return metadata.uid;
}

/** Runs the real kubectl to its end, as the administrator. */
export async function runKubectl(
  { kubectl, kubeconfig, directory }: ControlPlane,
  ...args: string[]
): Promise<End & { stdout: string; stderr: string }> {
  // kubectl caches discovery in its home folder.
  const env = { PATH: process.env.PATH, HOME: directory, KUBECONFIG: kubeconfig };
  const launched = launch(kubectl, args, { env, output: "pipe" });
  return { ...(await launched.ended), ...launched.printed() };
}

export interface Drained {
  /** How often kubectl was started. */
  readonly attempts: number;
  /** How often it gave up, as it does on any answer but 429. */
  readonly gaveUp: number;
  /** What kubectl printed for the user. */
  readonly stderr: string;
}

/**
 * Drains nodes at the same time, each with a kubectl that is started again when it gives up. Resolves when only pods of
 * DaemonSets are left on them. Throws the last kubectl's output if that takes longer than `timeoutMs`.
 */
export async function drainNodes(
  controlPlane: ControlPlane,
  api: Api,
  nodes: readonly string[],
  timeoutMs: number,
): Promise<Drained> {
  const deadline = performance.now() + timeoutMs;
  const drained = await Promise.all(nodes.map((node) => drainNode(controlPlane, api, node, deadline)));
  return {
    attempts: drained.reduce((sum, { attempts }) => sum + attempts, 0),
    gaveUp: drained.reduce((sum, { gaveUp }) => sum + gaveUp, 0),
    stderr: drained.map(({ stderr }) => stderr).join(""),
  };
}

async function drainNode(controlPlane: ControlPlane, api: Api, node: string, deadline: number): Promise<Drained> {
  let stderr = "";
  let gaveUp = 0;
  for (let attempts = 1; ; attempts++) {
    const left = Math.ceil((deadline - performance.now()) / 1_000);
    if (left <= 0) throw new Error(`${node} is not drained; kubectl said: ${stderr.slice(-2_000)}`);
    const reported = await runKubectl(controlPlane, "drain", node, "--ignore-daemonsets", `--timeout=${left}s`);
    stderr += reported.stderr;
    if (reported.code !== 0) gaveUp++;
    // A pod may have been scheduled just before the node was cordoned, and too late for this kubectl.
    else if ((await podsToDrain(api, node)).length === 0) return { attempts, gaveUp, stderr };
  }
}

/** The pods on a node that a drain removes: all but those of DaemonSets. */
async function podsToDrain(api: Api, node: string): Promise<Pod[]> {
  const { items } = await api.get<{ items: Pod[] }>(`/api/v1/pods?fieldSelector=spec.nodeName=${node}`);
  return items.filter(({ metadata }) => metadata.labels?.app !== "agent");
}

/** Applies the CRDs as users do. Resolves when the API server serves them. */
export async function applyCrds(controlPlane: ControlPlane): Promise<void> {
  const folder = new URL("../../knative/base/crds", import.meta.url).pathname;
  for (const args of [
    ["apply", "-k", folder],
    ["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"],
  ]) {
    const { code, stderr } = await runKubectl(controlPlane, ...args);
    if (code !== 0) throw new Error(`kubectl ${args.join(" ")}: ${stderr}`);
  }
}
