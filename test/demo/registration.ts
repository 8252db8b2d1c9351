/** Registers the webhooks by which the API server asks about evictions and downscales. */
import { prepareDownscale } from "../../functions/prepare-downscale/function.ts";
import { injectCertificateAuthority, webhookNamespace } from "../../functions/shared/annotations/table.ts";
import type { WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import type { World } from "../fake-cluster/world.ts";

const webhooks = "mutatingwebhookconfigurations";
export const webhookConfiguration = { namespace: "", name: "pod-eviction-demo" };

/**
 * Makes the API server ask the server on `port` about evictions and sizes. It trusts the server once the configuration has a
 * caBundle.
 */
export function registerWebhook({ store }: World, namespace: string, port: number): void {
  store.create(webhooks, "", {
    metadata: {
      name: webhookConfiguration.name,
      labels: { [injectCertificateAuthority.key]: "true", [webhookNamespace.key]: namespace },
    },
    webhooks: [
      {
        name: "pod-eviction-demo.grafana.com",
        clientConfig: { url: `https://localhost:${port}/pods/eviction/pin` },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] }],
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        admissionReviewVersions: ["v1"],
        failurePolicy: "Fail",
        sideEffects: "NoneOnDryRun",
        timeoutSeconds: 10,
      },
      {
        name: "prepare-downscale-demo.grafana.com",
        clientConfig: { url: `https://localhost:${port}${prepareDownscale.registration.path}` },
        // The conditions that ship only save reviews that Sluice would allow anyway; the fake cluster knows none.
        rules: [prepareDownscale.registration.rule],
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        admissionReviewVersions: ["v1"],
        failurePolicy: prepareDownscale.registration.failurePolicy,
        sideEffects: prepareDownscale.registration.sideEffects,
        timeoutSeconds: 10,
      },
    ],
  });
}

/** True once Sluice has written its own certificate into the configuration. */
export function isTrusted({ store }: World): boolean {
  const configuration: WebhookConfigurationObject | undefined = store.find(webhooks, webhookConfiguration);
  return configuration?.webhooks?.every(({ clientConfig }) => clientConfig.caBundle !== undefined) === true;
}
