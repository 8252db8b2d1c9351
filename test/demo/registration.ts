/** What brings evictions under the rule: the webhook that the API server asks. */
import type { WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import { injectCertificateAuthority, webhookNamespace } from "../../functions/shared/objects/vocabulary.ts";
import type { World } from "../world/world.ts";

const webhooks = "mutatingwebhookconfigurations";
export const webhookConfiguration = { namespace: "", name: "pod-eviction-demo" };

/** Has the API server ask whoever listens on `port` about every eviction. It trusts nobody there until it is given a caBundle. */
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
    ],
  });
}

/** True once Sluice has had its own certificate trusted. */
export function isTrusted({ store }: World): boolean {
  const configuration: WebhookConfigurationObject | undefined = store.find(webhooks, webhookConfiguration);
  return configuration?.webhooks?.every(({ clientConfig }) => clientConfig.caBundle !== undefined) === true;
}
