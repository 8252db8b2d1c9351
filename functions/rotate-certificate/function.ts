import { injectCertificateAuthority, reviewKey, webhookNamespace } from "../shared/annotations/table.ts";
import { certificateSettings, usualSecretName } from "../shared/certificates/settings.ts";
import type { CronDefinition } from "../shared/contract/definition.ts";
import type { KnownResource } from "../shared/kubernetes/cluster.ts";
import { createRotation } from "./act.ts";
import { guards } from "./guards.ts";
import { configurationNames, name } from "./observe.ts";

const admission = "admissionregistration.k8s.io";
const seen = ["list", "watch"];

/** Of every webhook. With another URL or other rules an account could change every object that is written in the cluster. */
const bundlePath = "webhooks[*].clientConfig.caBundle";
/** Only a review key before the path may change: reviews cannot be sent to another path. */
const keyPath = "webhooks[*].clientConfig.service.path";

/** Another client may remove the bundle or the key from one of these, or create one that lacks them. */
const configurations: readonly KnownResource[] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

/** Keeps the certificate of the TLS port in a Secret, renews it, and has every webhook configuration trust it in time. */
export const rotateCertificate: CronDefinition & { readonly settings: typeof certificateSettings } = {
  name,
  watches: configurations.map((resource) => ({ resource, selector: webhookNamespace })),
  concern: "renew the webhooks' certificate, and have it trusted before it is presented",
  guards,
  needs: [
    { group: "", resource: "secrets", verbs: ["get", "patch"], names: [usualSecretName], changes: ["data"] },
    ...Object.entries(configurationNames).flatMap(([resource, namesOfNamespace]) => [
      { group: admission, resource, verbs: seen },
      // An account that may change any of them may have every Secret of the cluster sent to itself.
      { group: admission, resource, verbs: ["patch"], namesOfNamespace, changes: [bundlePath, keyPath] },
    ]),
    { group: "", resource: "events", verbs: ["create"] },
  ],
  reads: [injectCertificateAuthority, webhookNamespace, reviewKey],
  writes: [],
  settings: certificateSettings,
  open: createRotation,
};
