import { isObjectName } from "../base/dns-names.ts";
import { parseBoolean, parseDuration, setting } from "../base/settings.ts";
import type { ObjectKey } from "../kubernetes/cluster.ts";

/** Where rollout-operator keeps its certificate unless told otherwise. */
export const usualSecretName = "rollout-operator-self-signed-certificate";

/** Ten years. */
const longestLifetimeMs = 87_600 * 3_600_000;

/** The settings that make {@link CertificateSettings}. */
export const certificateSettings = {
  tlsSecretName: setting<string>({
    name: "TLS_SECRET_NAME",
    fallback: usualSecretName,
    meaning:
      "Secret with the self-signed certificate, in the pod's own namespace; outside of pods in the one that is served, or in that of the kubeconfig's context",
    grammar: "the name of a Secret",
    parse: (text) => (isObjectName(text) ? text : undefined),
  }),
  tlsDnsName: setting<string>({
    name: "TLS_DNS_NAME",
    fallback: "",
    meaning:
      "name in the self-signed certificate, by which the API server calls Sluice; not set: rollout-operator.NAMESPACE.svc",
    grammar: "a DNS name",
    parse: (text) => (text === "" || isObjectName(text) ? text : undefined),
  }),
  tlsOrganisation: setting<string>({
    name: "TLS_ORGANISATION",
    fallback: "Grafana Labs",
    meaning: "organisation in the self-signed certificate, from its next renewal on",
    grammar: "1 to 64 characters",
    parse: (text) => (/^\P{C}{1,64}$/u.test(text) ? text : undefined),
  }),
  tlsCertLifetimeMs: setting<number>({
    name: "TLS_CERT_LIFETIME",
    fallback: "8760h",
    meaning:
      "how long a self-signed certificate is valid, from its next renewal on; it is renewed after two thirds of that",
    grammar: "a Go duration from 1m to 87600h",
    parse: (text) => parseDuration(text, 60_000, longestLifetimeMs),
  }),
  updateCaBundle: setting<boolean>({
    name: "UPDATE_CA_BUNDLE",
    fallback: "true",
    meaning:
      "false: Sluice writes no caBundle; the account that does must add next-ca of the Secret, and the next certificate waits until it is trusted",
    grammar: "true or false",
    parse: parseBoolean,
  }),
} as const;

export interface CertificateSettings {
  /** Its namespace is also the one that webhook configurations name in their label. */
  readonly secret: ObjectKey;
  /** Those that are served: the configurations of each have names of their own. */
  readonly namespaces: readonly string[];
  /** What the API server calls us: the leaf is made out to it. */
  readonly dnsName: string;
  readonly organisation: string;
  readonly lifetimeMs: number;
  /** Whether webhook configurations are made to trust it; false: others do that. */
  readonly updatesBundles: boolean;
}
