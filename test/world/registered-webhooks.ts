/** Which of the registered webhooks a request is shown to, as k8s.io/apiserver v0.36 chooses them. */

import type { LabelSelector, WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import { selects } from "./label-selector.ts";
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
  readonly namespace: string;
}

/**
 * The webhooks that want to see a request, in the order of their configurations' names, and within one as it lists them.
 *
 * @throws Error for a webhook that chooses by object or by expression, which the world cannot.
 */
export function webhooksFor(
  store: Store,
  resource: "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
  asked: RequestedResource,
): RegisteredWebhook[] {
  const configurations = store.list(resource).items;
  const webhooks = configurations.flatMap((configuration) => configuration.webhooks ?? []) as RegisteredWebhook[];
  // A namespace has this label from the API server, and no other here, where there are no Namespace objects.
  const labels = { "kubernetes.io/metadata.name": asked.namespace };
  const wanting = webhooks.filter(
    ({ rules, namespaceSelector }) =>
      rules?.some((rule) => matches(rule, asked)) === true && selects(namespaceSelector, labels),
  );
  for (const { name, objectSelector, matchConditions } of wanting) {
    if (Object.keys(objectSelector).length === 0 && (matchConditions ?? []).length === 0) continue;
    throw new Error(`the embedded world knows no objectSelector and no matchConditions, as webhook "${name}" has`);
  }
  return wanting;
}

type Rule = NonNullable<RegisteredWebhook["rules"]>[number] & { readonly scope?: string };

function matches(rule: Rule, asked: RequestedResource): boolean {
  return (
    rule.scope !== "Cluster" &&
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
