/** What brings evictions and downscales under the rule: the webhooks that the API server asks. */
import { prepareDownscale } from "../../functions/prepare-downscale/function.ts";
import { injectCertificateAuthority, webhookNamespace } from "../../functions/shared/annotations/table.ts";
import type { WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import type { World } from "../fake-cluster/world.ts";

const webhooks = "mutatingwebhookconfigurations";
export const webhookConfiguration = { namespace: "", name: "pod-eviction-demo" };

/** Has the API server ask the server on `port` about evictions and sizes, which it trusts once it has a caBundle. */
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
        // The conditions that ship only spare Sluice reviews that it would let through; the embedded world knows none.
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

/** True once Sluice has had its own certificate trusted. */
export function isTrusted({ store }: World): boolean {
  const configuration: WebhookConfigurationObject | undefined = store.find(webhooks, webhookConfiguration);
  return configuration?.webhooks?.every(({ clientConfig }) => clientConfig.caBundle !== undefined) === true;
}
