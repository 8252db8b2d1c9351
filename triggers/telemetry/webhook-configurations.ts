/** Follows the webhook configurations of our namespace: their failure policies are a metric, and their changes wake somebody. */
import { type Cluster, hasCode, type WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import { webhookNamespace } from "../../functions/shared/objects/vocabulary.ts";
import { causeOf, leastBackoffMs } from "../wake/passes.ts";
import type { Reporting } from "./reporting.ts";

export interface WebhookConfigurationsOptions {
  readonly cluster: Cluster;
  /** Those that name it in their label are followed. */
  readonly namespace: string;
  readonly reporting: Pick<Reporting, "log" | "metrics">;
  /** One of them has come, has changed or has gone. */
  onChange(): void;
}

const followed = {
  mutatingwebhookconfigurations: "MutatingWebhook",
  validatingwebhookconfigurations: "ValidatingWebhook",
} as const;
type Followed = keyof typeof followed;

const policies = ["Fail", "Ignore"] as const;
const longestBackoffMs = 10_000;

/** Lists and watches until the signal is given, whatever breaks. Resolves then, and never rejects. */
export async function followWebhookConfigurations(
  options: WebhookConfigurationsOptions,
  stopped: AbortSignal,
): Promise<void> {
  const known = new Map<string, { readonly resource: Followed; readonly object: WebhookConfigurationObject }>();
  const change = () => {
    showPolicies(options.reporting, known.values());
    options.onChange();
  };
  const follow = async (resource: Followed): Promise<void> => {
    const list = (items: readonly WebhookConfigurationObject[]) => {
      for (const [uid, one] of known) if (one.resource === resource) known.delete(uid);
      for (const object of items) known.set(object.metadata.uid, { resource, object });
      change();
    };
    const hear = (object: WebhookConfigurationObject, isGone: boolean) => {
      if (isGone) known.delete(object.metadata.uid);
      else known.set(object.metadata.uid, { resource, object });
      change();
    };
    await followOne(options, resource, { list, hear }, stopped);
  };
  await Promise.all((Object.keys(followed) as Followed[]).map(follow));
}

interface Hearer {
  list(items: readonly WebhookConfigurationObject[]): void;
  hear(object: WebhookConfigurationObject, isGone: boolean): void;
}

async function followOne(
  { cluster, namespace, reporting }: WebhookConfigurationsOptions,
  resource: Followed,
  { list, hear }: Hearer,
  signal: AbortSignal,
): Promise<void> {
  const query = { labelSelector: `${webhookNamespace.key}=${namespace}` };
  let resourceVersion: string | undefined;
  let backoffMs = 0;
  let said = "";
  while (!signal.aborted) {
    try {
      if (resourceVersion === undefined) {
        const listed = await cluster.list(resource, query, { signal });
        resourceVersion = listed.resourceVersion;
        list(listed.items);
      }
      for await (const event of cluster.watch(resource, { ...query, resourceVersion }, { signal })) {
        backoffMs = 0;
        said = "";
        resourceVersion = event.type === "BOOKMARK" ? event.resourceVersion : event.object.metadata.resourceVersion;
        if (event.type !== "BOOKMARK") hear(event.object, event.type === "DELETED");
      }
    } catch (error) {
      if (signal.aborted) return;
      if (hasCode(error, 410)) {
        resourceVersion = undefined;
        continue;
      }
      const trouble = `the watch of ${resource} broke and is taken up again: ${causeOf(error)}`;
      if (trouble !== said) reporting.log("warn", trouble, { resource, reason: "watch-broke", err: error });
      said = trouble;
      backoffMs = Math.max(Math.min(longestBackoffMs, backoffMs * 2 + 100), leastBackoffMs(error));
      await cluster.sleep(backoffMs, signal);
    }
  }
}

/** As rollout-operator has it, but that what is gone is gone: 1 for the policy that an entry has, 0 for the other. */
function showPolicies(
  { metrics }: Pick<Reporting, "metrics">,
  known: Iterable<{ readonly resource: Followed; readonly object: WebhookConfigurationObject }>,
): void {
  metrics.webhookFailurePolicy.reset();
  for (const { resource, object } of known) {
    for (const { name, failurePolicy = "Fail" } of object.webhooks ?? []) {
      const labels = { type: followed[resource], webhook: name };
      for (const policy of policies) {
        // Two configurations may have an entry of the same name: a policy is shown where one of them has it.
        if (policy === failurePolicy) metrics.webhookFailurePolicy.set({ ...labels, policy }, 1);
        else metrics.webhookFailurePolicy.inc({ ...labels, policy }, 0);
      }
    }
  }
}
