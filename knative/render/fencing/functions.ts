/** The functions of fencing as a Deployment, because what works while nodes fail cannot depend on Knative; and on Knative. */

import { containerOf, labelsOf, type Manifest, podSecurityContext, ports } from "../object.ts";
import { gracePeriodSeconds, knativeService, oneStays } from "../workloads.ts";
import { fencingNamespace, functionAccount as name } from "./names.ts";
import { priorities } from "./namespace.ts";

const labels = labelsOf(name);
/** Kubernetes' own default is five minutes. A fence begun by the replica on a sick node would wait for so long. */
const tolerationSeconds = 10;

/** Two replicas, never on one node, with the PodDisruptionBudget that keeps one of them. */
export function functionsDeployment(functions: readonly string[]): readonly Manifest[] {
  const metadata = { name, namespace: fencingNamespace, labels };
  const selector = { matchLabels: labels };
  const spec = {
    replicas: 2,
    selector,
    minReadySeconds: 5,
    // A third replica would have no node in a cluster of two, and an update would never end.
    strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } },
    template: { metadata: { labels }, spec: podOf(functions) },
  };
  return [{ apiVersion: "apps/v1", kind: "Deployment", metadata, spec }, oneStays(metadata, selector)];
}

function podOf(functions: readonly string[]): object {
  const container = containerOf(
    { FUNCTION: functions.join(","), PORT: `${ports.plain}`, FENCE_NAMESPACE: { fieldPath: "metadata.namespace" } },
    {
      ports: [{ name: "http-metrics", containerPort: ports.plain }],
      // It listens once the API server has reported its version. While the API server is away no restart helps: the kubelet would
      // delay each by more, up to five minutes, and the fences would wait for so long after the API server is back.
      startupProbe: { httpGet: { path: "/healthz", port: "http-metrics" }, periodSeconds: 2, failureThreshold: 1_800 },
      readinessProbe: { httpGet: { path: "/readyz", port: "http-metrics" }, timeoutSeconds: 2 },
      livenessProbe: { httpGet: { path: "/healthz", port: "http-metrics" }, timeoutSeconds: 5 },
      resources: { requests: { cpu: "100m", memory: "192Mi" }, limits: { memory: "512Mi" } },
    },
  );
  const taints = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
  const term = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: labels } };
  return {
    serviceAccountName: name,
    priorityClassName: priorities.ofFunctions,
    terminationGracePeriodSeconds: gracePeriodSeconds,
    enableServiceLinks: false,
    securityContext: podSecurityContext,
    tolerations: taints.map((key) => ({ key, operator: "Exists", effect: "NoExecute", tolerationSeconds })),
    // Required: two replicas on a node that fails would both be gone when its fence has to begin.
    affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term] } },
    containers: [container],
  };
}

/** One instance that always runs. By default Knative refuses fields of the downward API, so that the namespace is written. */
export function functionsOnKnative(functions: readonly string[]): Manifest {
  const settings = { FUNCTION: functions.join(","), VIEWS: "list", FENCE_NAMESPACE: fencingNamespace };
  return knativeService(name, settings, { initial: 1, min: 1, max: 1 });
}
