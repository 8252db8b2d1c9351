/** Which of the registered webhooks a request is shown to, as k8s.io/apiserver v0.36 chooses them. */

import type { LabelSelector, WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import { type Labels, selects } from "./label-selector.ts";
import type { Store } from "./store.ts";

/** One entry of a stored webhook configuration, with what the store fills in. */
export type RegisteredWebhook = NonNullable<WebhookConfigurationObject["webhooks"]>[number] & {
  readonly failurePolicy: "Fail" | "Ignore";
  readonly timeoutSeconds: number;
  readonly namespaceSelector: LabelSelector;
  readonly objectSelector: LabelSelector;
  readonly matchConditions?: readonly object[];
  readonly admissionReviewVersions?: readonly string[];
};

/** What is asked, in the terms of a rule. */
export interface RequestedResource {
  readonly operation: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  /** Empty for what is of the whole cluster. */
  readonly namespace: string;
  readonly object: object;
  readonly oldObject: object | null;
}

/**
 * The webhooks that want to see a request, in the order of their configurations' names, and within one as it lists them.
 *
 * @throws Error for a webhook that chooses by expression, which the world cannot.
 */
export function webhooksFor(
  store: Store,
  resource: "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
  asked: RequestedResource,
): RegisteredWebhook[] {
  // No webhook keeps a user from registering others, or from taking them away.
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

/** A namespace that is no object has the one label that the API server gives it. */
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
