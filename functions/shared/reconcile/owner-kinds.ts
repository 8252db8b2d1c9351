/** The kinds whose objects may have their pods labelled before they go, and their objects. */

import { setting, valuesOf } from "../base/settings.ts";
import type { Context } from "../contract/context.ts";
import type { Cluster, Resource } from "../kubernetes/cluster.ts";
import { findTypes, type NamedKind, parseNamedKinds, reportKinds, type ServedTypes } from "./named-kinds.ts";

export const skipLabelKindsSetting = setting<readonly NamedKind[]>({
  name: "SKIP_LABEL_KINDS",
  fallback: "",
  meaning: "kinds whose objects may ask for skip labels, besides RabbitmqCluster and StatefulSet",
  grammar: "KIND.GROUP, more of them after commas, such as Elasticsearch.elasticsearch.k8s.elastic.co",
  parse: parseNamedKinds,
});

/**
 * The types whose objects may be owners, as the API server serves them now, and kinds of the setting that it does not serve.
 * Those of the setting stand beside those that Sluice knows. Throws ClusterError.
 */
export async function findOwnerTypes(
  cluster: Pick<Cluster, "resourceOf">,
  kinds: readonly NamedKind[],
): Promise<ServedTypes> {
  const { resources, notServed } = await findTypes(cluster, kinds);
  return { resources: [...new Set<Resource>(["rabbitmqclusters", "statefulsets", ...resources])], notServed };
}

/**
 * The types whose objects may be owners, as the API server serves them now. A kind of the setting that is not served is reported
 * once. Throws ClusterError.
 */
export async function ownerResources(context: Context, by: string): Promise<readonly Resource[]> {
  const { skipLabelKinds } = valuesOf({ skipLabelKinds: skipLabelKindsSetting }, context.settings);
  const { resources, notServed } = await findOwnerTypes(context.cluster, skipLabelKinds);
  reportKinds(context, by, skipLabelKindsSetting, notServed);
  return resources;
}
