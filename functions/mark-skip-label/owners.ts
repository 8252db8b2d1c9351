/** Which objects are owners, of which kinds they are, and what one asks for. */
import {
  type Cluster,
  hasCode,
  KindNotServedError,
  type OtherObject,
  type Resource,
} from "../shared/kubernetes/cluster.ts";
import { parseDuration, setting } from "../shared/objects/settings.ts";
import {
  releaseFinalizer,
  skipDeadline,
  skipLabel,
  skipPreStopChecks,
  skipStatus,
  stopAll,
} from "../shared/objects/vocabulary/skip-labels.ts";
import { type Malformed, read } from "../shared/objects/vocabulary.ts";
import type { ObjectRef } from "../shared/views/keys.ts";
import type { Owner } from "./decide.ts";

/** A kind that whoever installs Sluice names. */
export interface OwnerKind {
  readonly kind: string;
  /** Empty for the core group. */
  readonly group: string;
}

export const settings = {
  skipLabelWaitMs: setting<number>({
    name: "SKIP_LABEL_WAIT",
    fallback: "90s",
    says: "how long after its label a pod's stop hook may not see it: that long a deleted owner is held; 0 does not wait",
    grammar: "a duration from 0 to 10m",
    parse: (text) => parseDuration(text, 0, 600_000),
  }),
  skipLabelKinds: setting<readonly OwnerKind[]>({
    name: "SKIP_LABEL_KINDS",
    fallback: "",
    says: "kinds whose objects may ask for skip labels, besides RabbitmqCluster and StatefulSet",
    grammar: "KIND.GROUP, more of them after commas, such as Elasticsearch.elasticsearch.k8s.elastic.co",
    parse: parseKinds,
  }),
  skipLabelFinalizer: setting<"keep" | "remove">({
    name: "SKIP_LABEL_FINALIZER",
    fallback: "keep",
    says: "remove: no owner that is not being deleted has our finalizer, as before an uninstall",
    grammar: "keep or remove",
    parse: (text) => (text === "keep" || text === "remove" ? text : undefined),
  }),
};

function parseKinds(text: string): readonly OwnerKind[] | undefined {
  const words = text.split(",").map((word) => word.trim());
  const named = words
    .filter((word) => word !== "")
    .map((word) => /^([A-Z][A-Za-z0-9]*)(?:\.([a-z0-9][a-z0-9.-]*))?$/.exec(word));
  const kinds = named.flatMap((match) => (match === null ? [] : [{ kind: match[1] as string, group: match[2] ?? "" }]));
  return kinds.length === named.length ? kinds : undefined;
}

/** How long an owner is held at most, in milliseconds. */
const usualDeadlineMs = 300_000;
/** What the garbage collector puts on an object that is deleted so that what it owns stays. */
const orphaning = "orphan";

/** An owner as it asks, and what of that does not parse. */
export interface Asked {
  readonly owner: Owner;
  readonly malformed: readonly Malformed[];
}

/** True for an object that a pass has to look at. */
export function isOfConcern(resource: Resource, { metadata }: OtherObject): boolean {
  const { annotations = {}, finalizers = [] } = metadata;
  if (resource === "rabbitmqclusters" || finalizers.includes(releaseFinalizer)) return true;
  return [skipLabel, stopAll, skipStatus].some(({ key }) => annotations[key] !== undefined);
}

/** `shown`: its kind and its name. */
export function parseOwner(resource: Resource, { metadata }: OtherObject, shown: string): Asked {
  const malformed: Malformed[] = [];
  const asked = read(skipLabel, metadata, malformed);
  const [wrong] = malformed;
  const usual = resource === "rabbitmqclusters" ? skipPreStopChecks : undefined;
  const label = asked === "none" ? undefined : (asked ?? usual);
  const deletedMs = Date.parse(metadata.deletionTimestamp ?? "");
  const owner: Owner = {
    shown,
    deletedMs: Number.isNaN(deletedMs) ? undefined : deletedMs,
    isOrphaning: metadata.finalizers?.includes(orphaning) ?? false,
    isHeld: metadata.finalizers?.includes(releaseFinalizer) ?? false,
    label,
    malformed: label === undefined ? wrong?.sentence : undefined,
    isStopping: read(stopAll, metadata, malformed) ?? false,
    deadlineMs: read(skipDeadline, metadata, malformed) ?? usualDeadlineMs,
    // One that somebody has broken is written anew.
    status: read(skipStatus, metadata),
  };
  return { owner, malformed };
}

/** The types whose objects may be owners, as the API server serves them now. Throws ClusterError. */
export async function ownerResources(
  cluster: Pick<Cluster, "resourceOf">,
  kinds: readonly OwnerKind[],
  unserved: (error: KindNotServedError) => void,
): Promise<readonly Resource[]> {
  const found = kinds.map(async ({ group, kind }) => {
    try {
      const { resource } = await cluster.resourceOf(group, kind);
      return [resource];
    } catch (error) {
      if (!(error instanceof KindNotServedError)) throw error;
      unserved(error);
      return [];
    }
  });
  return [...new Set<Resource>(["rabbitmqclusters", "statefulsets", ...(await Promise.all(found)).flat()])];
}

/** The owners of a namespace, or of all, that a pass has to look at. Throws ClusterError. */
export async function listOwners(
  cluster: Pick<Cluster, "list">,
  resources: readonly Resource[],
  namespace: string | undefined,
): Promise<readonly ObjectRef[]> {
  const lists = resources.map(async (resource) => {
    const { items } = await listOfType(cluster, resource, namespace);
    return items
      .filter((item) => isOfConcern(resource, item))
      .map(({ metadata }): ObjectRef => ({ resource, namespace: metadata.namespace ?? "", name: metadata.name }));
  });
  return (await Promise.all(lists)).flat();
}

/** The objects of a type; none of one whose CRD is not installed. Throws ClusterError. */
export async function listOfType(
  cluster: Pick<Cluster, "list">,
  resource: Resource,
  namespace: string | undefined,
): Promise<{ readonly items: readonly OtherObject[] }> {
  try {
    return await cluster.list(resource, namespace === undefined ? {} : { namespace });
  } catch (error) {
    if (hasCode(error, 404)) return { items: [] };
    throw error;
  }
}
