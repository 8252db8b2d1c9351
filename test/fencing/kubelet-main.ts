/**
 * The kubelet of one played machine, in its namespaces. It posts the status of its Node before it starts pods, renews the Lease
 * of its Node, runs each bound pod as a process, and ends those that are deleted. A pod may run a shipped program.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Api, type ApiAccess } from "../controlplane/api.ts";
import { BACK_OFF_MS, follow } from "../controlplane/follow.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { createNode } from "../controlplane/nodes.ts";
import { type Pod, podStatus } from "../controlplane/podstatus.ts";
import { type ShippedPod, shippedPodAnnotation } from "./shipped-pod.ts";

export interface KubeletSettings {
  readonly node: string;
  readonly systemUuid: string;
  /** Of the machine. */
  readonly address: string;
  readonly access: ApiAccess;
  /** The file to which pods append. */
  readonly journal: string;
  /** The time between two renewals of the Lease of the Node. A kubelet takes 10 s unless it is told otherwise. */
  readonly renewEveryMs: number;
  /** Whether it reports that it is Ready. */
  readonly isReady: boolean;
  /** The file of the agents that pods run. */
  readonly agentProgram: string;
  /** Environment of the agents that pods run. */
  readonly agent: Readonly<Record<string, string>>;
}

const podProgram = join(import.meta.dirname, "pod-main.ts");
const root = join(import.meta.dirname, "../..");
const strategic = "application/strategic-merge-patch+json";
const merge = "application/merge-patch+json";
const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

const settings = JSON.parse(process.argv[2] ?? "") as KubeletSettings;
const { node, systemUuid, address, access, journal, renewEveryMs, isReady, agentProgram, agent } = settings;
const shippedPrograms = { agent: agentProgram, functions: join(root, "triggers/main.ts") };
const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
const api = await Api.open(access, { userAgent: `kubelet-of-${node}`, connections: 6 });

interface Run {
  pod: Pod;
  readonly shipped: ShippedPod | undefined;
  child: ChildProcess | undefined;
  readonly seen: Date;
  isEnding: boolean;
}

interface PodStatus {
  readonly containerStatuses: readonly object[];
}

/** By uid. */
const runs = new Map<string, Run>();

/** Until the API server has it, or has no such object. */
async function persist(send: () => Promise<number>): Promise<void> {
  for (let backOffMs = BACK_OFF_MS.first; ; backOffMs = Math.min(backOffMs * 2, BACK_OFF_MS.most)) {
    const status = await send().catch(() => 0);
    if ((status >= 200 && status < 300) || status === 404 || status === 409) return;
    await delay(backOffMs);
  }
}

async function statusOf(method: string, path: string, body: object, type?: string): Promise<number> {
  const { statusCode, body: answer } = await api.send(method, path, body, type);
  await answer.dump();
  return statusCode;
}

/** Without times, so that a status that says nothing new changes nothing. */
async function postStatus(): Promise<number> {
  const how = isReady ? { status: "True", reason: "KubeletReady" } : { status: "False", reason: "KubeletNotReady" };
  const ready = { type: "Ready", ...how, message: "" };
  const nodeInfo = { bootID: bootId, systemUUID: systemUuid, machineID: systemUuid, operatingSystem: "linux" };
  const status = { nodeInfo, conditions: [ready], addresses: [{ type: "InternalIP", address }] };
  return statusOf("PATCH", `/api/v1/nodes/${node}/status`, { status }, strategic);
}

async function register(): Promise<number> {
  await createNode(api, { name: node, zone: "zone-a" });
  return postStatus();
}

async function renewLease(): Promise<number> {
  const renewTime = new Date().toISOString().replace("Z", "000Z");
  const spec = { holderIdentity: node, leaseDurationSeconds: 40, renewTime };
  const status = await statusOf("PATCH", `${leases}/${node}`, { spec }, merge);
  if (status !== 404) return status;
  const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: node }, spec };
  return statusOf("POST", leases, lease);
}

async function renewAgain(): Promise<never> {
  for (;;) {
    await Promise.allSettled([renewLease(), postStatus()]);
    await delay(renewEveryMs);
  }
}

const pathOf = ({ metadata }: Pod) => `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`;

function observe(pod: Pod): void {
  const { uid, deletionTimestamp } = pod.metadata;
  const run = runs.get(uid);
  if (run !== undefined) run.pod = pod;
  if (deletionTimestamp !== undefined) {
    void end(pod, run);
    return;
  }
  if (run !== undefined) return;
  const { [shippedPodAnnotation]: text } = pod.metadata.annotations ?? {};
  const shipped = text === undefined ? undefined : (JSON.parse(text) as ShippedPod);
  const started: Run = { pod, shipped, child: undefined, seen: new Date(), isEnding: false };
  runs.set(uid, started);
  void start(started);
}

async function start(run: Run): Promise<void> {
  const { pod, shipped, seen } = run;
  const { name, namespace, uid } = pod.metadata;
  if (shipped !== undefined) await delay(shipped.startsAfterMs);
  if (run.isEnding) return;
  const args = shipped ? [shippedPrograms[shipped.program]] : [podProgram, journal, `${namespace}/${name}`, uid, node];
  const env = shipped ? { ...process.env, ...agent, ...shipped.env } : process.env;
  // Each start has containers of its own: by these a claim knows that the pod of a node that is back runs anew.
  const containerID = `containerd://${randomUUID().replaceAll("-", "")}`;
  run.child = spawn(process.execPath, args, { env, stdio: ["ignore", "inherit", "inherit"] });
  await delay(Number(pod.metadata.annotations?.[ANNOTATIONS.readyAfterMs] ?? 0));
  await persist(() => {
    const status = podStatus(run.pod, () => undefined, address, { now: new Date(), seen }) as PodStatus;
    const started = { ...status, containerStatuses: status.containerStatuses.map((one) => ({ ...one, containerID })) };
    return statusOf("PATCH", `${pathOf(pod)}/status`, { metadata: { uid }, status: started }, merge);
  });
}

/** Ends the process of a pod, and then the pod. */
async function end(pod: Pod, run: Run | undefined): Promise<void> {
  if (run?.isEnding === true) return;
  if (run !== undefined) {
    run.isEnding = true;
    await kill(run);
  }
  const { uid } = pod.metadata;
  await persist(() => statusOf("DELETE", pathOf(pod), { gracePeriodSeconds: 0, preconditions: { uid } }));
}

/** A shipped program ends in an orderly way. */
async function kill({ child, shipped }: Run): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill(shipped === undefined ? "SIGKILL" : "SIGTERM");
  await ended;
}

await persist(register);
void renewAgain();
const path = `/api/v1/pods?fieldSelector=spec.nodeName=${node}`;
const gone = (uid: string): void => {
  const run = runs.get(uid);
  runs.delete(uid);
  if (run !== undefined) void kill(run);
};
for (;;) {
  const followed = await follow<Pod>(
    api,
    { path, known: runs, seen: observe, gone },
    new AbortController().signal,
  ).catch(() => delay(BACK_OFF_MS.first));
  await followed?.ended;
}
