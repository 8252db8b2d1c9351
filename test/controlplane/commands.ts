import { join } from "node:path";
import type { Layout } from "./configuration.ts";

const CONTROLLERS = [
  "deployment",
  "disruption",
  "endpointslice",
  "garbage-collector",
  // Hooks of Helm are Jobs.
  "job",
  "namespace",
  "persistentvolumeclaim-protection",
  "replicaset",
  "serviceaccount",
  "statefulset",
];

/** The controllers that remove pods from nodes that are gone or tainted, and that bind and attach volumes. */
const NODE_AND_VOLUME_CONTROLLERS = [
  // There are no DaemonSets, but taint eviction finds the pods of a node by this controller's index.
  "daemonset",
  "persistentvolume-attach-detach",
  "persistentvolume-binder",
  "persistentvolume-protection",
  "pod-garbage-collector",
  "taint-eviction",
];

/**
 * Those that every test needs, or also those of nodes and volumes. `node-health` is `all`, and the one that finds out that a
 * kubelet is silent: five seconds after its last word the Node is not Ready, and tainted. With `node-health-by-default` that
 * takes as long as in a cluster: Kubernetes 1.36 waits for 50 s, and checks every 5 s.
 */
export type Controllers = "workloads" | "all" | "node-health" | "node-health-by-default";

const NODE_HEALTH = ["--node-monitor-period=1s", "--node-monitor-grace-period=5s"];

export interface Command {
  readonly file: string;
  readonly args: readonly string[];
}

/**
 * Environment of the programs. They are written in Go, whose collector runs when the heap has grown by GOGC percent: here by
 * 400 and not by 100, because tests wait for processors and not for memory. A value that is already set stays.
 */
export const programEnvironment = (): NodeJS.ProcessEnv => ({ ...process.env, GOGC: process.env.GOGC ?? "400" });

interface EtcdPorts {
  readonly client: number;
  readonly peer: number;
}

/** Nothing is synced to disk: the data survive the end of a process, but not of the machine. */
export function etcdCommand(assets: string, layout: Layout, ports: EtcdPorts): Command {
  const client = `http://127.0.0.1:${ports.client}`;
  const peer = `http://127.0.0.1:${ports.peer}`;
  return {
    file: join(assets, "etcd"),
    args: [
      "--name=default",
      `--data-dir=${layout.etcdData}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=default=${peer}`,
      "--unsafe-no-fsync",
      // It is alone, so that an election need not wait for others. Each heartbeat costs time and is of no use.
      "--heartbeat-interval=100",
      "--election-timeout=500",
      "--log-level=warn",
      `--quota-backend-bytes=${8 * 1024 ** 3}`,
    ],
  };
}

/** So that a measurement against the API server measures the client. */
const UNLIMITED = [
  "--enable-priority-and-fairness=false",
  "--max-requests-inflight=4000",
  "--max-mutating-requests-inflight=4000",
];

export interface ApiServerSettings {
  /** Where it listens. */
  readonly address: string;
  readonly port: number;
  readonly etcdPort: number;
  /** With priority and fairness, and as many seats as a kube-apiserver has by default; else without limits. */
  readonly fairness: boolean;
}

/** Its certificate is for 127.0.0.1 and for its own address. */
export function apiServerCommand(
  assets: string,
  layout: Layout,
  { address, port, etcdPort, fairness }: ApiServerSettings,
): Command {
  return {
    file: join(assets, "kube-apiserver"),
    args: [
      `--etcd-servers=http://127.0.0.1:${etcdPort}`,
      `--bind-address=${address}`,
      `--secure-port=${port}`,
      `--cert-dir=${layout.certificates}`,
      // There may be no other address, and no client looks for this server in the endpoints of its own Service.
      "--advertise-address=127.0.0.1",
      "--endpoint-reconciler-type=none",
      "--service-cluster-ip-range=10.0.0.0/24",
      "--authorization-mode=RBAC",
      // As clusters have it.
      "--allow-privileged=true",
      `--token-auth-file=${layout.tokens}`,
      "--service-account-issuer=https://kubernetes.default.svc",
      `--service-account-key-file=${layout.serviceAccountPublicKey}`,
      `--service-account-signing-key-file=${layout.serviceAccountKey}`,
      // Pods need no service account here, and no controller would remove the taint from a new node.
      "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
      ...(fairness ? [] : UNLIMITED),
      `--audit-policy-file=${layout.auditPolicy}`,
      `--audit-log-path=${layout.auditLog}`,
      // In megabytes. Never rotated, because a reader must find all of it in one file.
      "--audit-log-maxsize=1000000",
    ],
  };
}

/**
 * Only both forms of `node-health` look after the nodes' health (node-lifecycle): elsewhere no kubelet reports any. A test there
 * that needs a node that is not ready writes its condition, and its taints.
 */
export function controllerManagerCommand(assets: string, layout: Layout, which: Controllers): Command {
  const ofNodes = which === "workloads" ? [] : NODE_AND_VOLUME_CONTROLLERS;
  const checksNodes = which === "node-health" || which === "node-health-by-default";
  const controllers = [...CONTROLLERS, ...ofNodes, ...(checksNodes ? ["node-lifecycle"] : [])];
  return {
    file: join(assets, "kube-controller-manager"),
    args: [
      `--kubeconfig=${layout.controllerManagerKubeconfig}`,
      "--leader-elect=false",
      "--secure-port=0",
      "--kube-api-qps=2000",
      "--kube-api-burst=4000",
      `--controllers=${controllers.map((name) => `${name}-controller`).join(",")}`,
      ...(which === "node-health" ? NODE_HEALTH : []),
      // Claims that found no volume reconcile again.
      "--pvclaimbinder-sync-period=1s",
      `--service-account-private-key-file=${layout.serviceAccountKey}`,
      `--root-ca-file=${layout.caFile}`,
    ],
  };
}
