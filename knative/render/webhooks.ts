/** The webhook configurations, with the names, labels and Service of rollout-operator's. */

import type { AdmissionDefinition } from "../../functions/shared/admission/definition.ts";
import { injectCertificateAuthority, reviewKey, webhookNamespace } from "../../functions/shared/annotations/table.ts";
import { usualSecretName } from "../../functions/shared/certificates/settings.ts";
import { answersReviews, type Manifest, placeholderNamespace, reviewService } from "./object.ts";

/**
 * The Secret of the certificate, empty: who fills it may not make one. With the right to make Secrets, and to have one collected
 * that may be changed, an account could have the token of any other made. It has neither type nor data, so that a Secret
 * that is there keeps its own when a user applies this.
 */
export function emptySecret(): Manifest {
  return { apiVersion: "v1", kind: "Secret", metadata: { name: usualSecretName, labels: answersReviews } };
}

/**
 * The configuration by which the API server asks an admission function. Throws Error for a function that does not listen at its
 * path. @param served the namespace of its reviews; absent: the one of the Service
 */
export function webhookConfiguration(
  { name, paths, registration }: AdmissionDefinition,
  served = placeholderNamespace,
): Manifest {
  const { kind, webhook, path, rule, sideEffects, failurePolicy, timeoutSeconds, matchConditions } = registration;
  if (!paths.includes(path))
    throw new Error(`${name} listens at ${paths.join(" and ")}, and is registered for ${path}`);
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: `${kind}WebhookConfiguration`,
    metadata: {
      name: `${webhook}-${served}`,
      labels: {
        ...answersReviews,
        [injectCertificateAuthority.key]: "true",
        [webhookNamespace.key]: placeholderNamespace,
        [reviewKey.key]: "true",
      },
    },
    webhooks: [
      {
        name: `${webhook}.${served}.grafana.com`,
        clientConfig: { service: { name: reviewService, namespace: placeholderNamespace, port: 443, path } },
        rules: [{ ...rule, scope: "Namespaced" }],
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": served } },
        ...(matchConditions === undefined ? {} : { matchConditions }),
        matchPolicy: "Equivalent",
        admissionReviewVersions: ["v1"],
        failurePolicy,
        sideEffects,
        timeoutSeconds,
      },
    ],
  };
}
