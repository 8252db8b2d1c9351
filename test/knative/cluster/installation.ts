/** An overlay, installed as its user does it: in a namespace of its own, with patches, by kubectl. */

import { Api, eventually } from "../../controlplane/api.ts";
import type { ControlPlane } from "../../controlplane/controlplane.ts";
import { evict } from "../../support/drain-webhook.ts";
import { isWebhook, serviceOfThisMachine, webhookBehind } from "../../support/installed.ts";
import { type Built, isDefinition, Kubectl } from "../../support/kubectl.ts";
import { post, tick } from "../../support/posted.ts";
import { prepareEventing } from "../dataplane/programs.ts";
import { ensureSchemas } from "../schemas.ts";
import type { KnativeCluster } from "./cluster.ts";
import { Replicas } from "./replicas.ts";

export interface InstallationOptions {
  readonly namespace: string;
  readonly overlay: "direct" | "broker";
  /** As kustomize has them, on the objects as they are rendered. */
  readonly patches?: readonly object[];
  /** Whether the replicas that answer reviews run, and the API server asks them. Default true. */
  readonly admission?: boolean;
}

export interface Installation {
  readonly namespace: string;
  readonly objects: readonly Built[];
  /** Undefined without admission. */
  readonly replicas: Replicas | undefined;
}

const tickAfterMs = 10_000;

/** Puts what Knative's programs read into a control plane, and the CRD of Serving: objects of its kinds can be applied then. */
export async function installKnative(controlPlane: ControlPlane): Promise<void> {
  const kubectl = await Kubectl.open(controlPlane);
  try {
    const serving = (await ensureSchemas()).filter((path) => path.includes("knative.dev/serving"));
    await kubectl.run("apply", "--server-side", ...serving.flatMap((path) => ["-f", path]));
    await prepareEventing(kubectl);
  } finally {
    await kubectl.close();
  }
}

const groupOf = (apiVersion: string): string => apiVersion.slice(0, apiVersion.indexOf("/"));

/**
 * Resolves when everything is applied, and Knative's objects are ready. With admission, when reviews are answered, too: that
 * takes the first run of rotate-certificate, which comes with its first instance.
 */
export async function install(cluster: KnativeCluster, options: InstallationOptions): Promise<Installation> {
  const { namespace, overlay, patches = [], admission = true } = options;
  const { controlPlane, program, nodeOptions } = cluster;
  const kubectl = await Kubectl.open(controlPlane);
  try {
    const objects = await kubectl.buildIn(namespace, overlay, [...patches, serviceOfThisMachine]);
    await kubectl.apply(objects.filter(isDefinition));
    await kubectl.waitForDefinitions();
    await kubectl.apply([{ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } }]);
    const isReviewing = (object: Built) => isWebhook(object) || object.kind === "Deployment";
    const isKnative = ({ apiVersion }: Built) => apiVersion.includes("knative.dev/");
    const others = objects.filter((object) => !isDefinition(object) && !isReviewing(object) && !isKnative(object));
    await kubectl.apply(others);
    const replicas = admission
      ? await Replicas.start({ controlPlane, namespace, objects, program, nodeOptions })
      : undefined;
    if (replicas !== undefined) {
      cluster.host(`rollout-operator.${namespace}.svc:8001`, replicas.plainPort, () => replicas.close());
      const { port } = replicas;
      await kubectl.apply(objects.filter(isWebhook).map((configuration) => webhookBehind(port, configuration)));
    }
    await kubectl.apply(objects.filter(isKnative));
    // A source whose adapter does not watch yet tells nothing of what changes.
    const kinds = [
      ...new Set(objects.filter(isKnative).map(({ kind, apiVersion }) => `${kind}.${groupOf(apiVersion)}`)),
    ];
    for (const kind of kinds) {
      await kubectl.run("wait", "--for=condition=Ready", "--timeout=60s", "--namespace", namespace, kind, "--all");
    }
    if (replicas !== undefined) await waitForReviews(cluster, namespace);
    return { namespace, objects, replicas };
  } finally {
    await kubectl.close();
  }
}

/**
 * Resolves when the API server trusts the replicas, for each kind of review. Where the first instance of rotate-certificate was
 * ended before its first run, as on a busy machine with a window of seconds, the next tick makes the certificate: it comes
 * here after ten seconds, and not after five minutes.
 */
async function waitForReviews(cluster: KnativeCluster, namespace: string): Promise<void> {
  const certificate = cluster.service(namespace, "rotate-certificate");
  let tickMs = Date.now() + tickAfterMs;
  const api = await Api.open(cluster.controlPlane, { userAgent: "sluice-test-knative", connections: 1 });
  const budgets = `/apis/rollout-operator.grafana.com/v1/namespaces/${namespace}/zoneawarepoddisruptionbudgets`;
  const budget = {
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name: "rehearsed" },
    spec: { maxUnavailable: 1, selector: { matchLabels: { "rollout-group": "rehearsed" } } },
  };
  try {
    const isDecided = async () => {
      const { message } = await evict(api, namespace, "absent");
      if (/ denied the request: /.test(message)) return true;
      if (certificate !== undefined && Date.now() > tickMs) {
        tickMs = Date.now() + tickAfterMs;
        await post(certificate, tick);
      }
      return undefined;
    };
    await eventually("an eviction decided", 60_000, isDecided, 250);
    await eventually("a budget decided", 60_000, () => api.post(`${budgets}?dryRun=All`, budget));
  } finally {
    await api.close();
  }
}
