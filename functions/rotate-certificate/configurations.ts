/** Writes webhook configurations: the bundle of each webhook, and the review key in its path. */

import { injectCertificateAuthority } from "../shared/annotations/table.ts";
import { mapLimit } from "../shared/base/map-limit.ts";
import { takesKey, withKey } from "../shared/certificates/review-key.ts";
import type { ActReport } from "../shared/contract/reporter.ts";
import { refusedRequeueMs } from "../shared/contract/verdict.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import {
  hasCode,
  isRightMissing,
  type SecretObject,
  type WebhookClient,
  type WebhookConfigurationObject,
} from "../shared/kubernetes/cluster.ts";
import { withoutOwnFields } from "../shared/workloads/managed-fields.ts";
import { type Configuration, isKeyDue, type Patch } from "./decide.ts";
import { isNamed, name, pathOf } from "./observe.ts";
import { keyOf, type Rotation, recordCertificateEvent } from "./rotation.ts";

/** Writes one configuration after the other; one that is refused holds up none. Throws ClusterError, when all were tried. */
export async function patchAll(
  rotation: Rotation,
  secret: SecretObject | undefined,
  { configurations, authorities, reviewKey, because }: Patch,
): Promise<void> {
  const caBundle = Buffer.from(authorities.join("")).toString("base64");
  await mapLimit(configurations, 1, (configuration) => {
    const key = isKeyDue(configuration, reviewKey) ? reviewKey : undefined;
    return patchOne(rotation, secret, configuration, { caBundle, key, because });
  });
}

/** What a configuration is to have: a bundle, and a review key in its paths unless that is undefined. */
interface WantedClient {
  readonly caBundle: string;
  readonly key: string | undefined;
  readonly because: string;
}

/** A client of the API server with the bundle, and with the key in its path where the path takes one. */
function clientWith(client: WebhookClient, { caBundle, key }: WantedClient): WebhookClient {
  const { service } = client;
  if (key === undefined || service === undefined || !takesKey(service.path)) return { ...client, caBundle };
  return { ...client, caBundle, service: { ...service, path: withKey(service.path, key) } };
}

/** How often the ownership is given up if other clients write the configuration meanwhile. */
const mostTries = 5;

/**
 * Gives up the ownership of the fields that were written. Helm 4 applies each field of its manifests. Its next upgrade would
 * fail, because Sluice would own the path with another value: the one with the review key. Throws ClusterError, but not if the
 * configuration is gone, if the API server refuses, or if other clients write it without end.
 */
async function disown(
  { context: { cluster } }: Rotation,
  resource: Configuration["resource"],
  written: WebhookConfigurationObject,
): Promise<void> {
  const key = { namespace: "", name: written.metadata.name };
  let { metadata } = written;
  for (let tries = 0; tries < mostTries; tries++) {
    const managedFields = withoutOwnFields(metadata);
    if (managedFields === undefined) return;
    const { uid, resourceVersion } = metadata;
    try {
      await cluster.patch(resource, key, { metadata: { uid, resourceVersion, managedFields } });
      return;
    } catch (error) {
      // The bundle and the key are written. To own their fields is no harm but to a client that applies.
      if (hasCode(error, 400, 403, 404, 422)) return;
      if (!hasCode(error, 409)) throw error;
      // The account may not get a configuration: a patch without a change answers with it as it is.
      ({ metadata } = await cluster.patch(resource, key, {}));
    }
  }
}

async function patchOne(
  rotation: Rotation,
  secret: SecretObject | undefined,
  { resource, object }: Configuration,
  wanted: WantedClient,
): Promise<void> {
  const { context, settings, memory } = rotation;
  const { cluster, reporter } = context;
  const { uid, resourceVersion } = object.metadata;
  const key = { namespace: "", name: object.metadata.name };
  const path = pathOf({ resource, object });
  const report = (result: ActReport["result"], reason: string) =>
    reporter.act({ key: keyOf(settings), function: name, action: "patch", object: path, zone: "", result, reason });
  // A merge patch replaces a list whole: everything but bundles and keys is as it was read, or else it is a conflict.
  const webhooks = object.webhooks?.map((webhook) => ({
    ...webhook,
    clientConfig: clientWith(webhook.clientConfig, wanted),
  }));
  const { because } = wanted;
  const hasKey = wanted.key !== undefined;
  try {
    const written = await cluster.patch(resource, key, { metadata: { uid, resourceVersion }, webhooks });
    await disown(rotation, resource, written);
    if (hasKey || memory.refusals.get(path)?.isOfKey !== true) memory.refusals.delete(path);
    report("done", because);
  } catch (error) {
    if (hasCode(error, 404, 409)) return report("changed", because);
    if (!hasCode(error, 400, 403, 422)) throw error;
    const refusal = `${path} was refused with ${error.code}: ${error.message}`;
    const isForeign = isRightMissing(error) && !isNamed(resource, key.name, settings);
    const isNew = !memory.refusals.has(path);
    // A configuration that refuses the key may accept the bundle, without which reviews fail.
    const isOfKey = hasKey && !isRightMissing(error);
    memory.refusals.set(path, {
      message: refusal,
      untilMs: cluster.monotonicMs() + refusedRequeueMs,
      isForeign,
      isOfKey,
    });
    report("refused", error.message);
    if (!isForeign || !isNew) return;
    const message = `${refusal}; Sluice has no right for that name: give it one, or remove the label ${injectCertificateAuthority.key}`;
    reporter.problem(keyOf(settings), name, message);
    const reason = eventReasons.configurationForeign;
    await recordCertificateEvent(rotation, secret, { type: "Warning", reason, message, identity: path });
  }
}
