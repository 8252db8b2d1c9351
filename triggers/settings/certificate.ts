/** The parameters of the self-signed certificate. */
import type { CertificateSettings } from "../../functions/shared/certificates/settings.ts";
import type { KubernetesCluster } from "../../functions/shared/kubernetes/client.ts";
import type { Settings } from "./settings.ts";

type ByUser = Pick<
  Settings,
  "tlsSecretName" | "tlsDnsName" | "tlsOrganisation" | "tlsCertLifetimeMs" | "updateCaBundle"
>;

/** @param served the namespaces that the process serves; undefined: all of them */
export function certificateOf(
  { tlsSecretName, tlsDnsName, tlsOrganisation, tlsCertLifetimeMs, updateCaBundle }: ByUser,
  served: readonly string[] | undefined,
  cluster: Pick<KubernetesCluster, "namespace" | "isInPod">,
): CertificateSettings {
  const namespace = namespaceOf(served, cluster);
  return {
    secret: { namespace, name: tlsSecretName },
    namespaces: served ?? [namespace],
    dnsName: tlsDnsName || `rollout-operator.${namespace}.svc`,
    organisation: tlsOrganisation,
    lifetimeMs: tlsCertLifetimeMs,
    updatesBundles: updateCaBundle,
  };
}

/**
 * The namespace of the pod, because the Service that leads to it is there, and its account has no right to a Secret elsewhere. A
 * process with a kubeconfig has no such namespace: that is the one that it serves, or else that of the context.
 */
function namespaceOf(
  served: readonly string[] = [],
  { namespace, isInPod }: Pick<KubernetesCluster, "namespace" | "isInPod">,
): string {
  const [only, ...others] = served;
  return isInPod || only === undefined || others.length > 0 ? namespace : only;
}
