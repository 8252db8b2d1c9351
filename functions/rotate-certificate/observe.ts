/** Reads what a rotation decides by: the Secret, the webhook configurations with our labels, and the memory of this process. */

import { injectCertificateAuthority, reviewKey, webhookNamespace } from "../shared/annotations/table.ts";
import { messageOf } from "../shared/base/error-message.ts";
import type { Keys } from "../shared/certificates/issue.ts";
import { parseReviewKeys, reviewKeyFault, splitPath, takesKey } from "../shared/certificates/review-key.ts";
import { howToEmpty, parseCertificates, type StoredCertificates, splitPem } from "../shared/certificates/secret.ts";
import type { CertificateSettings } from "../shared/certificates/settings.ts";
import {
  type Cluster,
  hasCode,
  type SecretObject,
  type WebhookConfigurationObject,
} from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import { type CertificateSnapshot, type Configuration, isLeftOut } from "./decide.ts";

export const name = "rotate-certificate";

/** What the webhook configurations of rollout-operator's users and of our manifests are called, with `-NAMESPACE` after it. */
export const configurationNames: Readonly<Record<Configuration["resource"], readonly string[]>> = {
  mutatingwebhookconfigurations: ["pod-eviction", `prepare-downscale`],
  validatingwebhookconfigurations: ["no-downscale", "pod-eviction", "zpdb-validation"],
};

/** Whether a configuration is called like one of a served namespace: then the manifests give us the right to write it. */
export function isNamed(
  resource: Configuration["resource"],
  configuration: string,
  { namespaces }: Pick<CertificateSettings, "namespaces">,
): boolean {
  return configurationNames[resource].some((one) => namespaces.some((each) => configuration === `${one}-${each}`));
}

/** What one process remembers between runs. Losing it costs seconds, never a review. */
export interface CertificateMemory {
  /** Keys that were generated ahead of need. */
  keys: Promise<Keys> | undefined;
  /** Since when, by the monotonic clock, every configuration has been seen to trust this authority. */
  trusted: { readonly ca: string; readonly sinceMs: number } | undefined;
  /** Since when, by the monotonic clock, each review key has been in the Secret as the current or the next one. */
  readonly knownKeys: Map<string, number>;
  /** Configurations that could not be written, by path. */
  readonly refusals: Map<string, RefusedWrite>;
  /** A Secret that could not be made. */
  creation: Refused | undefined;
  /** The warning that was last sent as an Event and still holds. */
  warned: string | undefined;
}

/** Why something was refused for good, and when it is tried again, by the monotonic clock. */
export interface Refused {
  readonly message: string;
  readonly untilMs: number;
}

/** Why a configuration could not be written. */
export interface RefusedWrite extends Refused, Pick<Configuration, "isForeign"> {
  /** True if only the review key is left out from now on, because the rest may still be accepted. */
  readonly isOfKey: boolean;
}

export interface Observation {
  readonly snapshot: CertificateSnapshot;
  /** Undefined where there is none. */
  readonly secret: SecretObject | undefined;
}

/** Reads everything anew. Throws ClusterError, but not where configurations may not be listed. */
export async function observe(
  cluster: Cluster,
  settings: CertificateSettings,
  memory: CertificateMemory,
): Promise<Observation> {
  // The Secret is read after them. An authority of ours is in the Secret before it is in a bundle, so that none looks foreign.
  const { configurations, elsewhere, unseen } = await listConfigurations(cluster, settings, memory);
  const secret = await find(cluster, "secrets", settings.secret);
  const stored = secret === undefined ? undefined : parse(secret, settings);
  const readable = stored === undefined || "unreadable" in stored ? undefined : stored;
  const nowMs = cluster.serverTimeMs();
  const awaited = configurations.filter((one) => !isLeftOut(one, readable?.presented));
  const trustedForMs = watchTrust(memory, awaited, readable?.next?.ca, cluster.monotonicMs());
  const creationRefused = standing(memory.creation, cluster.monotonicMs());
  const { dnsName, updatesBundles } = settings;
  const seen = { configurations, elsewhere, unseen, trustedForMs };
  const keys = observeKeys(secret, memory, cluster.monotonicMs());
  return { secret, snapshot: { nowMs, dnsName, updatesBundles, stored, creationRefused, ...seen, ...keys } };
}

/** Remembers since when each key is known. A key that the Secret loses is forgotten, so that its time begins anew. */
function observeKeys(
  secret: SecretObject | undefined,
  { knownKeys }: CertificateMemory,
  nowMs: number,
): Pick<CertificateSnapshot, "reviewKeys" | "keyFault" | "keyKnownForMs"> {
  const reviewKeys = parseReviewKeys(secret ?? {});
  const stored = [reviewKeys.current, reviewKeys.next].filter((key) => key !== undefined);
  for (const key of knownKeys.keys()) if (!stored.includes(key)) knownKeys.delete(key);
  for (const key of stored) if (!knownKeys.has(key)) knownKeys.set(key, nowMs);
  const sinceMs = knownKeys.get(reviewKeys.current ?? "") ?? nowMs;
  return { reviewKeys, keyFault: reviewKeyFault(secret ?? {}), keyKnownForMs: nowMs - sinceMs };
}

/** Why it was refused, while it is not to be tried again. */
function standing(refused: Refused | undefined, nowMs: number): string | undefined {
  return refused !== undefined && nowMs < refused.untilMs ? refused.message : undefined;
}

function parse(
  secret: SecretObject,
  settings: CertificateSettings,
): StoredCertificates | { readonly unreadable: string } {
  try {
    return parseCertificates(secret);
  } catch (error) {
    return { unreadable: `${messageOf(error)}; ${howToEmpty(settings.secret)}` };
  }
}

async function listConfigurations(
  cluster: Cluster,
  { secret: { namespace }, dnsName, updatesBundles }: CertificateSettings,
  memory: CertificateMemory,
): Promise<Pick<CertificateSnapshot, "configurations" | "elsewhere" | "unseen">> {
  // A configuration that others fill needs no label that permits us to write.
  const ours = updatesBundles ? `${injectCertificateAuthority.key}=true,` : "";
  const labelSelector = `${ours}${webhookNamespace.key}=${namespace}`;
  const resources = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] as const;
  const configurations: Configuration[] = [];
  const elsewhere: string[] = [];
  let unseen: string | undefined;
  for (const resource of resources) {
    try {
      const { items } = await cluster.list(resource, { labelSelector });
      forget(memory, resource, items);
      const here = items.filter((object) => leadsTo(dnsName, object));
      configurations.push(...here.map((object) => configurationOf(resource, object, memory, cluster.monotonicMs())));
      elsewhere.push(...items.filter((object) => !here.includes(object)).map((object) => pathOf({ resource, object })));
    } catch (error) {
      // A certificate is of use even without the right to list them.
      if (!hasCode(error, 403)) throw error;
      unseen ??= error.message;
    }
  }
  return { configurations, elsewhere, unseen };
}

/** A name such as `rollout-operator.mimir.svc`. Any other name names no Service. */
const serviceName = /^[^.]+\.[^.]+\.svc$/;

/**
 * Whether one of its webhooks leads to the Service that our certificate is for. A release of rollout-operator's chart has the
 * same labels, and a Service of another name. With our bundle the API server would not trust that operator any more.
 */
function leadsTo(dnsName: string, { webhooks = [] }: WebhookConfigurationObject): boolean {
  if (!serviceName.test(dnsName)) return true;
  const services = webhooks.map(({ clientConfig }) => clientConfig.service);
  return services.some((one) => one === undefined || `${one.name}.${one.namespace}.svc` === dnsName);
}

/** Forgets what was refused of configurations that are gone. */
function forget(
  { refusals }: CertificateMemory,
  resource: Configuration["resource"],
  there: readonly WebhookConfigurationObject[],
): void {
  const paths = new Set(there.map((object) => pathOf({ resource, object })));
  for (const path of refusals.keys()) if (path.startsWith(`${resource}/`) && !paths.has(path)) refusals.delete(path);
}

export function pathOf({ resource, object }: Pick<Configuration, "resource" | "object">): string {
  return `${resource}/${object.metadata.name}`;
}

function configurationOf(
  resource: Configuration["resource"],
  object: WebhookConfigurationObject,
  { refusals }: CertificateMemory,
  nowMs: number,
): Configuration {
  const bundles = (object.webhooks ?? []).map(({ clientConfig }) =>
    splitPem(Buffer.from(clientConfig.caBundle ?? "", "base64").toString("utf8")),
  );
  const refused = refusals.get(pathOf({ resource, object }));
  const message = standing(refused, nowMs);
  const [refusal, keyRefusal] = refused?.isOfKey ? [undefined, message] : [message, undefined];
  const isForeign = refusal !== undefined && refused?.isForeign === true;
  return { resource, object, bundles, pathKeys: pathKeysOf(object), refusal, keyRefusal, isForeign };
}

/** The key in each path that takes one; none where the label does not ask for keys. */
function pathKeysOf({ metadata, webhooks = [] }: WebhookConfigurationObject): readonly (string | undefined)[] {
  if (reviewKey.parse(metadata.labels?.[reviewKey.key] ?? "") !== true) return [];
  const paths = webhooks.map(({ clientConfig }) => clientConfig.service?.path);
  return paths.filter(takesKey).map((path) => splitPath(path).key);
}

/** For how long every configuration has trusted the authority; begins anew with another authority, and when one does not. */
function watchTrust(
  memory: CertificateMemory,
  configurations: readonly Configuration[],
  ca: string | undefined,
  nowMs: number,
): number {
  const isTrusted = (authority: string) =>
    configurations.every(({ bundles }) => bundles.every((bundle) => bundle.includes(authority)));
  if (ca === undefined || !isTrusted(ca)) memory.trusted = undefined;
  else if (memory.trusted?.ca !== ca) memory.trusted = { ca, sinceMs: nowMs };
  return memory.trusted === undefined ? 0 : nowMs - memory.trusted.sinceMs;
}
