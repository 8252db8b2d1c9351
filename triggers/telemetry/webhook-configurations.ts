/** Follows the webhook configurations of our namespace: their failure policies are a metric, and their changes wake somebody. */
import type { Cluster, Resource, WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import { webhookNamespace } from "../../functions/shared/objects/vocabulary.ts";
import { follow } from "../../functions/shared/views/following.ts";
import type { Store } from "../../functions/shared/views/progress.ts";
import { causeOf, leastBackoffMs } from "../wake/passes.ts";
import type { Reporting } from "./logs-and-metrics.ts";

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

/** The configurations that there are, by uid. */
type Known = Map<string, { readonly resource: Followed; readonly object: WebhookConfigurationObject }>;

const policies = ["Fail", "Ignore"] as const;

/** Lists and watches until the signal is given, whatever breaks. Resolves then, and never rejects. */
export async function followWebhookConfigurations(
  options: WebhookConfigurationsOptions,
  stopped: AbortSignal,
): Promise<void> {
  const known: Known = new Map();
  const change = () => {
    showPolicies(options.reporting, known.values());
    options.onChange();
  };
  await Promise.all(
    (Object.keys(followed) as Followed[]).map((resource) => followOne(options, resource, known, change, stopped)),
  );
}

async function followOne(
  { cluster, namespace, reporting }: WebhookConfigurationsOptions,
  resource: Followed,
  known: Known,
  change: () => void,
  stopped: AbortSignal,
): Promise<void> {
  let said = "";
  const store: Store<WebhookConfigurationObject> = {
    replace(objects) {
      for (const [uid, one] of known) if (one.resource === resource) known.delete(uid);
      for (const object of objects) known.set(object.metadata.uid, { resource, object });
      change();
    },
    apply(event) {
      said = "";
      if (event.type === "BOOKMARK") return;
      const { object } = event;
      if (event.type === "DELETED") known.delete(object.metadata.uid);
      else known.set(object.metadata.uid, { resource, object });
      change();
    },
  };
  const onTrouble = (_: Resource, error: unknown) => {
    const trouble = `the watch of ${resource} broke and starts again: ${causeOf(error)}`;
    if (trouble !== said) reporting.log("warn", trouble, { resource, reason: "watch-broke", err: error });
    said = trouble;
  };
  const query = { labelSelector: `${webhookNamespace.key}=${namespace}` };
  await follow({ cluster, onTrouble, leastBackoffMs }, { resource, query, store, optional: false }, stopped, () => {});
}

/** As rollout-operator has it, but that what is gone is gone: 1 for the policy that an entry has, 0 for the other. */
function showPolicies({ metrics }: Pick<Reporting, "metrics">, known: ReturnType<Known["values"]>): void {
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
