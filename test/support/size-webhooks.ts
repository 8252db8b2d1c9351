/**
 * What sends changes of sizes to Sluice: the two webhooks as they ship, with an address instead of a Service, for one
 * namespace.
 */
import { guardDownscale } from "../../functions/guard-downscale/function.ts";
import { prepareDownscale } from "../../functions/prepare-downscale/function.ts";
import type { AdmissionDefinition } from "../../functions/shared/admission/definition.ts";
import { prepareDownscale as preparedLabel } from "../../functions/shared/annotations/scaling.ts";
import { type Api, ApiError, eventually } from "../controlplane/api.ts";

export interface SizeEndpoint {
  readonly port: number;
  /** Certificate of the authority in PEM. */
  readonly ca: string;
}

function configurationOf({ registration }: AdmissionDefinition, namespace: string, { port, ca }: SizeEndpoint): object {
  const { kind, rule, webhook, path, sideEffects, failurePolicy, matchConditions } = registration;
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: `${kind}WebhookConfiguration`,
    metadata: { name: `${webhook}-${namespace}` },
    webhooks: [
      {
        name: `${webhook}.${namespace}.grafana.com`,
        clientConfig: { url: `https://127.0.0.1:${port}${path}`, caBundle: Buffer.from(ca).toString("base64") },
        rules: [{ ...rule, scope: "Namespaced" }],
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        admissionReviewVersions: ["v1"],
        sideEffects,
        failurePolicy,
        matchConditions,
        timeoutSeconds: 10,
      },
    ],
  };
}

const pathOf = ({ registration }: AdmissionDefinition) =>
  `/apis/admissionregistration.k8s.io/v1/${registration.kind.toLowerCase()}webhookconfigurations`;

/** The API server no longer asks any webhook about the sizes of a namespace. */
export async function unregisterSizes(api: Api, namespace: string): Promise<void> {
  for (const definition of [guardDownscale, prepareDownscale])
    await api.delete(`${pathOf(definition)}/${definition.registration.webhook}-${namespace}`);
}

/** Registers a server for the sizes of one namespace. Resolves when the API server asks it. */
export async function registerSizes(api: Api, namespace: string, endpoint: SizeEndpoint): Promise<void> {
  for (const definition of [guardDownscale, prepareDownscale]) {
    await api.post(pathOf(definition), configurationOf(definition, namespace, endpoint));
  }
  await waitUntilAsked(api, namespace);
}

/** Waits by a StatefulSet that does not say how its pods are told: only our webhook refuses each downscale of it. */
async function waitUntilAsked(api: Api, namespace: string): Promise<void> {
  const sets = `/apis/apps/v1/namespaces/${namespace}/statefulsets`;
  const labels = { app: "probe" };
  const pod = { metadata: { labels }, spec: { containers: [{ name: "app", image: "app:1" }] } };
  await api.post(sets, {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name: "probe", labels: { [preparedLabel.key]: "true" } },
    spec: { replicas: 1, serviceName: "probe", selector: { matchLabels: labels }, template: pod },
  });
  await eventually("the webhook for sizes asked", 30_000, async () => {
    await api.patch(`${sets}/probe/scale`, { spec: { replicas: 1 } });
    const refusal = await api.patch(`${sets}/probe/scale`, { spec: { replicas: 0 } }).catch((error: unknown) => error);
    return refusal instanceof ApiError && refusal.message.includes("prepare-downscale-http-port") ? true : undefined;
  });
  await api.delete(`${sets}/probe`, { propagationPolicy: "Background" });
}
