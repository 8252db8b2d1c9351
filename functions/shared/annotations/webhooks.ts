/** The labels of webhook configurations. */
import { anyText, labelOn, onlyTrue } from "./entry.ts";

const labelOfConfiguration = labelOn("WebhookConfiguration");

export const injectCertificateAuthority = labelOfConfiguration("grafana.com/inject-rollout-operator-ca", onlyTrue, {
  grammar: "true",
  fallback: "its caBundle is left alone",
  says: "the authorities of our certificate are written into the caBundle of each of its webhooks",
});

export const webhookNamespace = labelOfConfiguration("grafana.com/namespace", anyText, {
  grammar: "the name of a namespace",
  fallback: "the configuration is left alone",
  says: "the namespace of those who answer its webhooks: others leave it alone",
});

export const reviewKey = labelOfConfiguration("sluice.dev/review-key", onlyTrue, {
  grammar: "true",
  fallback: "the paths of its webhooks are left alone",
  says: "the paths of its webhooks begin with a key that only API servers know",
});

export const webhookEntries = [injectCertificateAuthority, webhookNamespace, reviewKey] as const;
