/** Selects the registered webhooks that see a request, as k8s.io/apiserver v0.36 does. */

import type { LabelSelector, WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import { type Labels, selects } from "./label-selector.ts";
import type { Store } from "./store.ts";

/** One webhook of a stored configuration, with its defaults. */
export type RegisteredWebhook = NonNullable<WebhookConfigurationObject["webhooks"]>[number] & {
  readonly failurePolicy: "Fail" | "Ignore";
  readonly timeoutSeconds: number;
  readonly namespaceSelector: LabelSelector;
  readonly objectSelector: LabelSelector;
  readonly matchConditions?: readonly object[];
  readonly admissionReviewVersions?: readonly string[];
};

/** The requested resource, in the terms of a rule. */
export interface RequestedResource {
  readonly operation: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  /** Empty for a cluster-wide resource. */
  readonly namespace: string;
  readonly object: object;
  readonly oldObject: object | null;
}

/**
 * The webhooks that must see a request, by the names of their configurations and in the order within each.
 *
 * @throws Error for a webhook with matchConditions, which the fake cluster does not know.
 */
export function webhooksFor(
  store: Store,
  resource: "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
  asked: RequestedResource,
): RegisteredWebhook[] {
  // No webhook can keep a user from registering webhooks, or from removing them.
  if (asked.group === "admissionregistration.k8s.io") return [];
  const configurations = store.list(resource).items;
  const webhooks = configurations.flatMap((configuration) => configuration.webhooks ?? []) as RegisteredWebhook[];
  const wanting = webhooks.filter(
    ({ rules, namespaceSelector, objectSelector }) =>
      rules?.some((rule) => matches(rule, asked)) === true &&
      (asked.namespace === "" || selects(namespaceSelector, labelsOfNamespace(store, asked.namespace))) &&
      [asked.object, asked.oldObject].some((object) => object !== null && selects(objectSelector, labelsOf(object))),
  );
  for (const { name, matchConditions } of wanting) {
    if ((matchConditions ?? []).length === 0) continue;
    throw new Error(`the embedded world knows no matchConditions, as webhook "${name}" has`);
  }
  return wanting;
}

/** A namespace that is no object has only the label that the API server adds. */
function labelsOfNamespace(store: Store, name: string): Labels {
  const namespace = store.find("namespaces", { namespace: "", name });
  return { ...namespace?.metadata.labels, "kubernetes.io/metadata.name": name };
}

function labelsOf(object: object): Labels {
  return (object as { readonly metadata?: { readonly labels?: Labels } }).metadata?.labels;
}

type Rule = NonNullable<RegisteredWebhook["rules"]>[number] & { readonly scope?: string };

function matches(rule: Rule, asked: RequestedResource): boolean {
  return (
    rule.scope !== (asked.namespace === "" ? "Namespaced" : "Cluster") &&
    includes(rule.operations, asked.operation) &&
    includes(rule.apiGroups, asked.group) &&
    includes(rule.apiVersions, asked.version) &&
    (rule.resources ?? []).some((pattern) => {
      const [resource = "", subresource = ""] = pattern.split("/");
      return includes([resource], asked.resource) && includes([subresource], asked.subresource);
    })
  );
}

function includes(patterns: readonly string[] | undefined, value: string): boolean {
  return patterns?.some((pattern) => pattern === "*" || pattern === value) === true;
}
