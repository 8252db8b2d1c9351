/** The workloads: Knative Services that come and go, and Deployments that stay because the API server asks them. */
import {
  answersReviews,
  containerOf,
  labelsOf,
  type Manifest,
  podSecurityContext,
  ports,
  reviewService,
} from "./object.ts";

/** The settings' default of DRAIN_TIMEOUT, 25 s, and time to close the ports. */
export const gracePeriodSeconds = 30;
/** The settings' default of SHUTDOWN_DELAY, 10 s, an eviction that comes at its end and waits for 15 s, and time to spare. */
const reviewGracePeriodSeconds = 40;
/** A replica that ends is seen to be unready after 8 s at the latest, while it still answers for SHUTDOWN_DELAY. */
const readiness = { periodSeconds: 3, failureThreshold: 2, timeoutSeconds: 2 };

/**
 * A function that events trigger. It accepts keys from many requests at once and queues them itself, so that a second instance
 * would only read everything twice; a user who wants one raises `max-scale`. Each function also runs once when it is installed,
 * for the objects that are there before the first event.
 */
export function knativeService(
  name: string,
  settings: Readonly<Record<string, string>>,
  scales = { initial: 1, min: 0, max: 1 },
): Manifest {
  const labels = labelsOf(name);
  const annotations = Object.fromEntries(
    Object.entries(scales).map(([bound, count]) => [`autoscaling.knative.dev/${bound}-scale`, `${count}`]),
  );
  return {
    apiVersion: "serving.knative.dev/v1",
    kind: "Service",
    metadata: { name, labels: { ...labels, "networking.knative.dev/visibility": "cluster-local" } },
    spec: {
      template: {
        metadata: { labels, annotations },
        spec: {
          serviceAccountName: name,
          containerConcurrency: 100,
          // Also the grace period of its pods.
          timeoutSeconds: gracePeriodSeconds,
          enableServiceLinks: false,
          containers: [
            containerOf(
              { FUNCTION: name, ...settings },
              {
                // Knative tells the container by PORT.
                ports: [{ name: "http1", containerPort: ports.knative }],
                readinessProbe: { httpGet: { path: "/readyz" }, timeoutSeconds: 1 },
                livenessProbe: { httpGet: { path: "/healthz" }, periodSeconds: 10, timeoutSeconds: 5 },
                resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "512Mi" } },
              },
            ),
          ],
        },
      },
    },
  };
}

/** Two replicas that answer reviews, on two nodes if there are two, and never both evicted at once. */
export function deployment(name: string, settings: Readonly<Record<string, string>>): readonly Manifest[] {
  return replicasOf(name, answersReviews, podOf(name, settings));
}

/** Two replicas of a function that answers no reviews, likewise. */
export function functionDeployment(name: string): readonly Manifest[] {
  const container = containerOf(
    { FUNCTION: name, PORT: `${ports.plain}` },
    { ports: [plainPort], ...probes({ timeoutSeconds: 2 }), resources: replicaResources },
  );
  const labels = labelsOf(name);
  return replicasOf(name, labels, podWith(container, name, labels, gracePeriodSeconds));
}

function replicasOf(name: string, labels: Readonly<Record<string, string>>, pod: object): readonly Manifest[] {
  const metadata = { name, labels };
  const selector = { matchLabels: labels };
  const spec = {
    replicas: 2,
    selector,
    minReadySeconds: 5,
    strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    template: { metadata: { labels }, spec: pod },
  };
  return [{ apiVersion: "apps/v1", kind: "Deployment", metadata, spec }, oneStays(metadata, selector)];
}

/** The PodDisruptionBudget of two replicas. One that is not ready does nothing, so that its node may be drained. */
export function oneStays(metadata: Manifest["metadata"], selector: object): Manifest {
  const spec = { minAvailable: 1, unhealthyPodEvictionPolicy: "AlwaysAllow", selector };
  return { apiVersion: "policy/v1", kind: "PodDisruptionBudget", metadata, spec };
}

function podOf(name: string, settings: Readonly<Record<string, string>>): object {
  const container = containerOf(
    { ...settings, PORT: `${ports.plain}`, TLS_PORT: `${ports.tls}` },
    {
      ports: [plainPort, { name: "https", containerPort: ports.tls }],
      ...probes(readiness),
      resources: replicaResources,
    },
  );
  return podWith(container, name, answersReviews, reviewGracePeriodSeconds);
}

function podWith(
  container: object,
  serviceAccountName: string,
  labels: Readonly<Record<string, string>>,
  terminationGracePeriodSeconds: number,
): object {
  return {
    serviceAccountName,
    terminationGracePeriodSeconds,
    enableServiceLinks: false,
    securityContext: podSecurityContext,
    affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: spreadOver(labels) } },
    containers: [container],
  };
}

const plainPort = { name: "http-metrics", containerPort: ports.plain };
const replicaResources = { requests: { cpu: "100m", memory: "192Mi" }, limits: { memory: "512Mi" } };

/** The probes of the plain port; `times` is of readiness. */
function probes(times: object): object {
  return {
    readinessProbe: { httpGet: { path: "/readyz", port: "http-metrics" }, ...times },
    livenessProbe: { httpGet: { path: "/healthz", port: "http-metrics" }, periodSeconds: 10, timeoutSeconds: 5 },
  };
}

/** Preferred, not required, because a cluster of one node also has two replicas. */
function spreadOver(labels: Readonly<Record<string, string>>): readonly object[] {
  return ["kubernetes.io/hostname", "topology.kubernetes.io/zone"].map((topologyKey, index) => ({
    weight: 100 - 50 * index,
    podAffinityTerm: { topologyKey, labelSelector: { matchLabels: labels } },
  }));
}

/** Where the API server sends reviews, and Prometheus asks for metrics; the ports are those of rollout-operator. */
export function serviceForReviews(): Manifest {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: reviewService, labels: answersReviews },
    spec: {
      selector: answersReviews,
      ports: [
        { name: "https", port: 443, targetPort: "https" },
        { name: "http-metrics", port: ports.plain, targetPort: "http-metrics" },
      ],
    },
  };
}
