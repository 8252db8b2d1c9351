/** The agents: a privileged pod on each Linux node, with its rights, and its place in the queues of the API server. */

import type { Need } from "../../../functions/shared/contract/definition.ts";
import { agentImage, type EnvironmentValue, environmentOf, labelsOf, type Manifest } from "../object.ts";
import { rightsOf } from "../rights.ts";
import { fencingNamespace, agentAccount as name } from "./names.ts";
import { priorities } from "./namespace.ts";

const labels = labelsOf(name);
/** Of the host, in the container: the runtime copies only those devices that are there when the container starts. */
const devices = "/host/dev";

/** It renews its own Lease, and reads its Node and those of its neighbours with their Leases. It lists and watches nothing. */
export const agentNeeds: readonly Need[] = [
  { group: "coordination.k8s.io", resource: "leases", verbs: ["get", "create", "patch"], changes: [] },
  { group: "", resource: "nodes", verbs: ["get"] },
];

const settings: Readonly<Record<string, EnvironmentValue>> = {
  NODE_NAME: { fieldPath: "spec.nodeName" },
  HOST_IPS: { fieldPath: "status.hostIPs" },
  FENCE_NAMESPACE: { fieldPath: "metadata.namespace" },
  AGENT_WATCHDOG: `${devices}/watchdog`,
  // The kernel has it once, for all namespaces of processes, and a privileged container has a `/proc` that can be written.
  AGENT_RESET_FILE: "/proc/sysrq-trigger",
};

/** The DaemonSet of the agents, with their account, rights and FlowSchema. */
export function agentsOf(): readonly Manifest[] {
  return [...rightsOf({ name, needs: agentNeeds }), daemonSet(), flowSchema()];
}

function daemonSet(): Manifest {
  const spec = {
    selector: { matchLabels: labels },
    // The new agent waits beside the old one, until that has given it the port. So a slow pull of an image resets no node.
    updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    minReadySeconds: 30,
    template: { metadata: { labels }, spec: pod() },
  };
  return { apiVersion: "apps/v1", kind: "DaemonSet", metadata: { name, labels }, spec };
}

function pod(): object {
  const folders = { run: "/run/sluice", state: "/var/lib/sluice" };
  const volumes = [
    { name: "devices", hostPath: { path: "/dev", type: "Directory" } },
    ...Object.entries(folders).map(([name, path]) => ({ name, hostPath: { path, type: "DirectoryOrCreate" } })),
  ];
  const volumeMounts = [
    // Devices can be written on a mount that is read-only, and files cannot be made there.
    { name: "devices", mountPath: devices, readOnly: true },
    ...Object.entries(folders).map(([name, mountPath]) => ({ name, mountPath })),
  ];
  return {
    serviceAccountName: name,
    // Its token names the node, by which the API server knows whose Lease an agent may write.
    automountServiceAccountToken: true,
    priorityClassName: priorities.ofAgents,
    nodeSelector: { "kubernetes.io/os": "linux" },
    tolerations: [{ operator: "Exists" }],
    // Peers ask at the addresses of the host. No port is declared: a declared one would keep the next agent from the node.
    hostNetwork: true,
    // The resolver of the node, because that of the cluster may fail together with it. As a rule no name is resolved at all.
    dnsPolicy: "Default",
    enableServiceLinks: false,
    // Three requests of 4 s at most: the last renewal, the last drill, and the write that stops the device. An agent that is
    // killed earlier leaves the device running, and the machine is reset.
    terminationGracePeriodSeconds: 30,
    volumes,
    containers: [container(volumeMounts)],
  };
}

/**
 * It has no probes: the watchdog is one, a restart by the kubelet would cure nothing that a reset does not, and a probe of the
 * port would be answered by the predecessor. It has no limit of CPU, because throttling would starve the device. Without
 * `privileged` Kubernetes lets no container open a device. The watchdogs' files below `/sys` are in the container's own `/sys`.
 */
function container(volumeMounts: readonly object[]): object {
  return {
    name: "agent",
    image: agentImage,
    imagePullPolicy: "IfNotPresent",
    env: environmentOf(settings),
    // It has at most 90 MB resident. One that ran out of memory would leave the device running.
    resources: { requests: { cpu: "20m", memory: "96Mi" }, limits: { memory: "192Mi" } },
    volumeMounts,
    securityContext: { privileged: true, readOnlyRootFilesystem: true, runAsUser: 0 },
  };
}

/** An overloaded API server answers agents as it answers kubelets. Otherwise its load would cost permits, and reset nodes. */
function flowSchema(): Manifest {
  const resourceRules = agentNeeds.map(({ group, resource, verbs }) => ({
    apiGroups: [group],
    resources: [resource],
    verbs,
    ...(resource === "nodes" ? { clusterScope: true } : { namespaces: [fencingNamespace] }),
  }));
  const subjects = [{ kind: "ServiceAccount", serviceAccount: { name, namespace: fencingNamespace } }];
  return {
    apiVersion: "flowcontrol.apiserver.k8s.io/v1",
    kind: "FlowSchema",
    metadata: { name: `sluice-${name}`, labels },
    spec: {
      priorityLevelConfiguration: { name: "node-high" },
      // After `system-node-high` of Kubernetes, which has 400, and before those of all accounts.
      matchingPrecedence: 500,
      rules: [{ subjects, resourceRules }],
    },
  };
}
