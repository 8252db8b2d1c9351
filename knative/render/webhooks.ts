/** The webhook configurations: by the names, labels and Service that rollout-operator's have. */

import { resources } from "../../functions/shared/kubernetes/cluster.ts";
import { usualSecretName } from "../../functions/shared/objects/certificates.ts";
import { injectCertificateAuthority, webhookNamespace } from "../../functions/shared/objects/vocabulary.ts";
import type { AdmissionDefinition } from "../../functions/shared/pass/definition.ts";
import { answersReviews, type Manifest, placeholderNamespace, reviewService } from "./object.ts";

interface Registration {
  readonly kind: "Mutating" | "Validating";
  readonly webhook: string;
  readonly path: string;
  readonly rule: object;
  readonly sideEffects: "None" | "NoneOnDryRun";
  readonly matchConditions?: readonly object[];
}

/**
 * The pods of a Deployment of ours: without replicas nobody would answer for them, and the nodes that they hang on could not be
 * drained. They end in five letters or digits that are drawn. All that the API server knows here is a name: where these are
 * digits alone, it may be that of a StatefulSet's pod, and whoever answers the review looks at the pod itself.
 */
const ownPod = "^sluice(-admission)?-[a-z0-9]+-[bcdfghjklmnpqrstvwxz2456789]{5}$";
const endsAsOrdinal = "-[0-9]+$";
const isOwnPod = `request.name.matches('${ownPod}') && !request.name.matches('${endsAsOrdinal}')`;

const registrations: Readonly<Record<string, Registration>> = {
  "evaluate-eviction": {
    // Only a mutating webhook may pin the uid of the pod that was reviewed (rule R11).
    kind: "Mutating",
    webhook: "pod-eviction",
    path: "/pods/eviction/pin",
    rule: { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] },
    // It reserves the pod; dry runs leave no trace (rule R16).
    sideEffects: "NoneOnDryRun",
    matchConditions: [{ name: "not-a-pod-of-sluice", expression: `!(${isOwnPod})` }],
  },
  "validate-zone-budget": {
    kind: "Validating",
    webhook: "zpdb-validation",
    path: "/admission/zpdb-validation",
    rule: {
      apiGroups: [resources.zoneawarepoddisruptionbudgets.group],
      apiVersions: ["v1"],
      operations: ["CREATE", "UPDATE"],
      resources: ["zoneawarepoddisruptionbudgets"],
    },
    sideEffects: "None",
  },
};

/**
 * The Secret of the certificate, empty: who fills it may not make one. With the right to make Secrets, and to have one collected
 * that may be changed, an account could have the token of any other made. It has neither type nor data, so that one that is there
 * keeps its own, whoever applies this.
 */
export function emptySecret(): Manifest {
  return { apiVersion: "v1", kind: "Secret", metadata: { name: usualSecretName, labels: answersReviews } };
}

/** The configuration that has the API server ask an admission function. Throws for one that nothing is written of here. */
export function webhookConfiguration({ name, paths, whenBroken }: AdmissionDefinition): Manifest {
  const registration = registrations[name];
  if (registration === undefined || !paths.includes(registration.path)) {
    throw new Error(`${name} is asked at ${paths.join(" or ")}, and no registration in render/webhooks.ts says so`);
  }
  const { kind, webhook, path, rule, sideEffects, matchConditions } = registration;
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: `${kind}WebhookConfiguration`,
    metadata: {
      name: `${webhook}-${placeholderNamespace}`,
      labels: {
        ...answersReviews,
        [injectCertificateAuthority.key]: "true",
        [webhookNamespace.key]: placeholderNamespace,
      },
    },
    webhooks: [
      {
        name: `${webhook}.${placeholderNamespace}.grafana.com`,
        clientConfig: { service: { name: reviewService, namespace: placeholderNamespace, port: 443, path } },
        rules: [{ ...rule, scope: "Namespaced" }],
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": placeholderNamespace } },
        ...(matchConditions === undefined ? {} : { matchConditions }),
        matchPolicy: "Equivalent",
        admissionReviewVersions: ["v1"],
        failurePolicy: whenBroken === "closed" ? "Fail" : "Ignore",
        sideEffects,
        timeoutSeconds: 10,
      },
    ],
  };
}
