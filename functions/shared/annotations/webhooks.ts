/** The labels of webhook configurations. */
import { type Annotation, asText } from "./entry.ts";

export const injectCertificateAuthority: Annotation<boolean> = {
  key: "grafana.com/inject-rollout-operator-ca",
  kind: "label",
  on: "WebhookConfiguration",
  grammar: "true",
  fallback: "its caBundle is left alone",
  says: "the authorities of our certificate are written into the caBundle of each of its webhooks",
  parse: (text) => (text === "true" ? true : undefined),
};

export const webhookNamespace: Annotation<string> = {
  key: "grafana.com/namespace",
  kind: "label",
  on: "WebhookConfiguration",
  grammar: "the name of a namespace",
  fallback: "the configuration is left alone",
  says: "the namespace of those who answer its webhooks: others leave it alone",
  parse: asText,
};

export const reviewKey: Annotation<boolean> = {
  key: "sluice.dev/review-key",
  kind: "label",
  on: "WebhookConfiguration",
  grammar: "true",
  fallback: "the paths of its webhooks are left alone",
  says: "the paths of its webhooks begin with a key that only API servers know",
  parse: (text) => (text === "true" ? true : undefined),
};

export const webhookEntries = [injectCertificateAuthority, webhookNamespace, reviewKey] as const;
