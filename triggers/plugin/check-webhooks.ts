/** The webhooks of Sluice and their certificate: whether they are registered, trusted, and answer. */

import { guardCause } from "../../functions/shared/admission/answers.ts";
import { rolloutGroup, webhookNamespace } from "../../functions/shared/annotations/table.ts";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import {
  howToEmpty,
  parseCertificates,
  type StoredCertificates,
  splitPem,
} from "../../functions/shared/certificates/secret.ts";
import { usualSecretName } from "../../functions/shared/certificates/settings.ts";
import {
  type Cluster,
  ClusterError,
  isRightMissing,
  type WebhookConfigurationObject,
} from "../../functions/shared/kubernetes/cluster.ts";
import { find } from "../../functions/shared/kubernetes/find.ts";
import { type Finding, ok, unknown, wrong } from "./check-result.ts";
import type { ApiConnection } from "./terminal.ts";

/** Sluice renews a certificate after two thirds of its validity, so that a certificate with less left was not renewed. */
const renewedBeforeMs = 7 * 24 * 3_600_000;

const overlay = "kubectl apply -k YOUR-OVERLAY, with knative/base/webhooks in it";

/** Both kinds of configurations, which name the namespace of Sluice in a label. Throws ClusterError. */
export async function listWebhooks(cluster: Cluster, home: string): Promise<readonly WebhookConfigurationObject[]> {
  const labelSelector = `${webhookNamespace.key}=${home}`;
  const [mutating, validating] = await Promise.all([
    cluster.list("mutatingwebhookconfigurations", { labelSelector }),
    cluster.list("validatingwebhookconfigurations", { labelSelector }),
  ]);
  return [...mutating.items, ...validating.items];
}

export function checkRegistered(configurations: readonly WebhookConfigurationObject[], home: string): Finding {
  const names = configurations.map(({ metadata }) => metadata.name).sort();
  const hasEvictions = configurations.some(({ webhooks = [] }) =>
    webhooks.some(({ rules = [] }) => rules.some(({ resources = [] }) => resources.includes("pods/eviction"))),
  );
  if (hasEvictions) return ok(`${names.length} configurations of ${home}: ${names.join(", ")}`);
  const others = names.length === 0 ? "" : `; there are ${names.join(", ")}`;
  return wrong(`no webhook of ${home} asks Sluice about evictions${others}`, overlay);
}

/** Undefined without a Secret. Throws ClusterError, and an Error that says what is wrong with its data. */
async function readCertificates(cluster: Cluster, home: string): Promise<StoredCertificates | undefined> {
  const secret = await find(cluster, "secrets", { namespace: home, name: usualSecretName });
  return secret && parseCertificates(secret);
}

/** Throws ClusterError. */
export async function checkCertificate(cluster: Cluster, home: string): Promise<Finding> {
  const logs = `kubectl logs -n ${home} -l app.kubernetes.io/name=sluice`;
  try {
    const stored = await readCertificates(cluster, home);
    if (stored === undefined) {
      const cause = "it may have another name (TLS_SECRET_NAME), or come from a file";
      return unknown(`there is no Secret ${usualSecretName} in namespace ${home}: ${cause}`);
    }
    const { presented } = stored;
    if (presented === undefined) return wrong(`the Secret ${usualSecretName} is empty`, logs);
    const leftMs = presented.notAfterMs - cluster.serverTimeMs();
    const until = `${presented.dnsNames.join(", ")} until ${new Date(presented.notAfterMs).toISOString()}`;
    return leftMs > renewedBeforeMs ? ok(until) : wrong(`it is not renewed: ${until}`, logs);
  } catch (error) {
    if (error instanceof ClusterError) throw error;
    return wrong(messageOf(error), howToEmpty({ namespace: home, name: usualSecretName }));
  }
}

/** Whether each bundle has the authority of the certificate; or whether there is any, if the Secret cannot be read. */
export async function checkTrusted(
  cluster: Cluster,
  configurations: readonly WebhookConfigurationObject[],
  home: string,
): Promise<Finding> {
  if (configurations.length === 0) return unknown("no webhook is registered");
  const ca = await readAuthority(cluster, home);
  const untrusting = configurations.filter(({ webhooks = [] }) =>
    webhooks.some(({ clientConfig: { caBundle = "" } }) => {
      const bundle = splitPem(Buffer.from(caBundle, "base64").toString("utf8"));
      return ca === undefined ? bundle.length === 0 : !bundle.includes(ca);
    }),
  );
  if (untrusting.length > 0) {
    const names = untrusting.map(({ metadata }) => metadata.name).join(", ");
    const todo = `kubectl logs -n ${home} -l app.kubernetes.io/name=sluice, which says why rotate-certificate does not write them`;
    return wrong(`the caBundle of ${names} does not have the authority of the certificate`, todo);
  }
  if (ca === undefined) return unknown("each has a caBundle, and the certificate cannot be read");
  return ok("each caBundle has the authority of the certificate");
}

async function readAuthority(cluster: Cluster, home: string): Promise<string | undefined> {
  try {
    return (await readCertificates(cluster, home))?.presented?.ca;
  } catch {
    // The check of the certificate says why.
    return undefined;
  }
}

/** Asks by a dry run whether a pod of a group may be evicted. Any answer but that of a webhook that failed will do. */
export async function checkAnswering(
  { cluster, askEviction }: Pick<ApiConnection, "cluster" | "askEviction">,
  namespace: string,
  home: string,
): Promise<Finding> {
  const pod = await findPodOfGroup(cluster, namespace);
  if (pod === undefined) return unknown(`namespace ${namespace} has no pod of a group to ask about`);
  const asked = `the eviction of ${pod.name}`;
  try {
    await askEviction({ namespace, name: pod.name }, pod.uid);
    return ok(`${asked} would be allowed now`);
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    const { code, causes, message: text } = error;
    if (code === 0 || isRightMissing(error)) throw error;
    const guard = causes.find(({ reason }) => reason === guardCause)?.message;
    if (guard !== undefined) return ok(`${asked} would be refused now: ${guard}`);
    const [message = ""] = text.split("\n");
    if (!/failed calling webhook/.test(message)) return ok(`${asked} would be refused now, not by Sluice: ${message}`);
    return wrong(message, `kubectl get endpointslices -n ${home} -l kubernetes.io/service-name=rollout-operator`);
  }
}

async function findPodOfGroup(
  cluster: Cluster,
  namespace: string,
): Promise<{ readonly name: string; readonly uid: string } | undefined> {
  const { items } = await cluster.list("statefulsets", {
    namespace,
    labelSelector: rolloutGroup.key,
    metadataOnly: true,
  });
  const sets = new Set(items.map(({ metadata }) => metadata.uid));
  if (sets.size === 0) return undefined;
  const pods = (await cluster.list("pods", { namespace })).items;
  return pods.find(({ metadata }) => metadata.ownerReferences?.some(({ uid }) => sets.has(uid)))?.metadata;
}
