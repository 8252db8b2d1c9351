/** The kinds whose objects may have their pods labelled before they go, and their objects. */

import { setting, valuesOf } from "../base/settings.ts";
import type { Context } from "../contract/context.ts";
import { isNewEvent } from "../events/recorder.ts";
import { type Cluster, KindNotServedError, type Resource } from "../kubernetes/cluster.ts";

/** A kind that the user who installs Sluice names. */
interface OwnerKind {
  readonly kind: string;
  /** Empty for the core group. */
  readonly group: string;
}

export const skipLabelKindsSetting = setting<readonly OwnerKind[]>({
  name: "SKIP_LABEL_KINDS",
  fallback: "",
  meaning: "kinds whose objects may ask for skip labels, besides RabbitmqCluster and StatefulSet",
  grammar: "KIND.GROUP, more of them after commas, such as Elasticsearch.elasticsearch.k8s.elastic.co",
  parse: parseKinds,
});

function parseKinds(text: string): readonly OwnerKind[] | undefined {
  const names = text.split(",").map((word) => word.trim());
  const named = names
    .filter((word) => word !== "")
    .map((word) => /^([A-Z][A-Za-z0-9]*)(?:\.([a-z0-9][a-z0-9.-]*))?$/.exec(word));
  const kinds = named.flatMap((match) => (match === null ? [] : [{ kind: match[1] as string, group: match[2] ?? "" }]));
  return kinds.length === named.length ? kinds : undefined;
}

/** The types whose objects may be owners, as the API server serves them now, and kinds of the setting that it does not serve. */
interface OwnerTypes {
  readonly resources: readonly Resource[];
  readonly notServed: readonly KindNotServedError[];
}

/** Looks up the kinds of the setting, which stand beside those that Sluice knows. Throws ClusterError. */
export async function findOwnerTypes(
  cluster: Pick<Cluster, "resourceOf">,
  kinds: readonly OwnerKind[],
): Promise<OwnerTypes> {
  const notServed: KindNotServedError[] = [];
  const found = kinds.map(async ({ group, kind }) => {
    try {
      return [(await cluster.resourceOf(group, kind)).resource];
    } catch (error) {
      if (!(error instanceof KindNotServedError)) throw error;
      notServed.push(error);
      return [];
    }
  });
  const served = (await Promise.all(found)).flat();
  return { resources: [...new Set<Resource>(["rabbitmqclusters", "statefulsets", ...served])], notServed };
}

/**
 * The types whose objects may be owners, as the API server serves them now. A kind of the setting that is not served is reported
 * once. Throws ClusterError.
 */
export async function ownerResources(context: Context, by: string): Promise<readonly Resource[]> {
  const { skipLabelKinds } = valuesOf({ skipLabelKinds: skipLabelKindsSetting }, context.settings);
  const { resources, notServed } = await findOwnerTypes(context.cluster, skipLabelKinds);
  const key = { namespace: "", group: "" };
  for (const { message } of notServed)
    if (isNewEvent(context, key, message)) context.reporter.problem(key, by, `SKIP_LABEL_KINDS: ${message}`);
  return resources;
}
