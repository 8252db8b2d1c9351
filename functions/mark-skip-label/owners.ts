/** Which objects are owners, of which kinds they are, and what each asks for. */

import { misplacedFinder } from "../shared/annotations/misplaced.ts";
import {
  isKeyPermitted,
  parseLabelKeys,
  releaseFinalizer,
  type SkipLabel,
  skipDeadline,
  skipLabel,
  skipPreStopChecks,
  skipStatus,
  stopAll,
  usualSkipLabelKeys,
} from "../shared/annotations/skip-labels.ts";
import { annotationTable, type Malformed, read } from "../shared/annotations/table.ts";
import { parseDuration, setting } from "../shared/base/settings.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import type { Cluster, OtherObject, Resource } from "../shared/kubernetes/cluster.ts";
import { listIfServed } from "../shared/kubernetes/find.ts";
import { skipLabelKindsSetting } from "../shared/reconcile/owner-kinds.ts";
import type { ReleasedOwner } from "./decide.ts";

export const settings = {
  skipLabelKinds: skipLabelKindsSetting,
  skipLabelKeys: setting<readonly string[]>({
    name: "SKIP_LABEL_KEYS",
    fallback: usualSkipLabelKeys.join(),
    meaning: "the keys of the labels that owners may ask for; never one of kubernetes.io, k8s.io or their subdomains",
    grammar: "KEY or PREFIX/*, with commas between them, such as skipPreStopChecks,example.com/*",
    parse: parseLabelKeys,
  }),
  skipLabelWaitMs: setting<number>({
    name: "SKIP_LABEL_WAIT",
    fallback: "90s",
    meaning:
      "how long after its label a pod's stop hook may not see it: that long a deleted owner is held; 0 does not wait",
    grammar: "a duration from 0 to 10m",
    parse: (text) => parseDuration(text, 0, 600_000),
  }),
  skipLabelMarker: setting<MarkerFile | "none">({
    name: "SKIP_LABEL_MARKER",
    fallback: "none",
    meaning:
      "where a pod's stop hook sees its label: it is read there by exec, and an owner is let go once all of its pods see it; none: SKIP_LABEL_WAIT is waited for. The account needs the right to create and get pods/exec",
    grammar: "none, or CONTAINER:PATH, such as rabbitmq:/etc/pod-info/skipPreStopChecks",
    parse: parseMarker,
  }),
  skipLabelFinalizer: setting<"keep" | "remove">({
    name: "SKIP_LABEL_FINALIZER",
    fallback: "keep",
    meaning: "remove: no owner that is not being deleted has our finalizer, as before an uninstall",
    grammar: "keep or remove",
    parse: (text) => (text === "keep" || text === "remove" ? text : undefined),
  }),
};

/** A file in the containers of that name. */
export interface MarkerFile {
  readonly container: string;
  readonly path: string;
}

function parseMarker(text: string): MarkerFile | "none" | undefined {
  if (text === "none") return text;
  const [, container, path] = /^([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?):(\/\S+)$/.exec(text) ?? [];
  return container === undefined || path === undefined ? undefined : { container, path };
}

/** How long an owner is held at most, in milliseconds. */
const usualDeadlineMs = 300_000;
/** The garbage collector's finalizer on a deleted object whose dependents must stay. */
const orphaning = "orphan";

const findMisplaced = misplacedFinder([skipLabel, skipDeadline, stopAll]);

/** True for an object that has to be reconciled: also where it asks in the wrong place, so that an Event says so. */
function isOfConcern({ metadata }: OtherObject): boolean {
  const { annotations = {}, finalizers = [] } = metadata;
  if (finalizers.includes(releaseFinalizer)) return true;
  const isAsking = [skipLabel, stopAll, skipStatus].some(({ key }) => annotations[key] !== undefined);
  return isAsking || findMisplaced(metadata).length > 0;
}

/**
 * Why pods get no such label. A user who may write the owner may have no right to change pods, and a label may mean anything to
 * other programs. No owner may ask for a label that Sluice itself reads.
 */
function whyForbidden({ key }: SkipLabel, permitted: readonly string[]): string | undefined {
  if (isKeyPermitted(key, permitted) && annotationTable.every((entry) => entry.key !== key)) return undefined;
  return `pods do not get the label ${key}, though annotation ${skipLabel.key} asks for it: SKIP_LABEL_KEYS is ${permitted.join()}`;
}

/** An owner as it asks, and what of that does not parse. `shown`: its kind and its name; `permitted`: the keys of labels. */
export function parseOwner(
  resource: Resource,
  { metadata }: OtherObject,
  shown: string,
  permitted: readonly string[],
): { readonly owner: ReleasedOwner; readonly malformed: readonly Malformed[] } {
  const malformed: Malformed[] = [];
  const permit = (label: SkipLabel): SkipLabel | undefined => {
    const message = whyForbidden(label, permitted);
    if (message !== undefined) malformed.push({ key: skipLabel.key, message });
    return message === undefined ? label : undefined;
  };
  const requested = read(skipLabel, metadata, malformed);
  const asked = requested === undefined || requested === "none" ? requested : permit(requested);
  const isStopping = read(stopAll, metadata, malformed) ?? false;
  // RabbitMQ's own hook looks for it. An owner without a request is left to its operator, which has a finalizer of its own.
  const isAsked = isStopping || metadata.annotations?.[skipLabel.key] !== undefined;
  const isUsual = resource === "rabbitmqclusters" && isAsked && asked === undefined;
  const label = asked === "none" ? undefined : (asked ?? (isUsual ? permit(skipPreStopChecks) : undefined));
  const wrong = malformed.find(({ key }) => key === skipLabel.key);
  const deletedMs = Date.parse(metadata.deletionTimestamp ?? "");
  const owner: ReleasedOwner = {
    shown,
    deletedMs: Number.isNaN(deletedMs) ? undefined : deletedMs,
    isOrphaning: metadata.finalizers?.includes(orphaning) ?? false,
    hasOurFinalizer: metadata.finalizers?.includes(releaseFinalizer) ?? false,
    label,
    malformed: label === undefined ? wrong?.message : undefined,
    isStopping,
    deadlineMs: read(skipDeadline, metadata, malformed) ?? usualDeadlineMs,
    // A malformed status counts as absent, and is written again.
    status: read(skipStatus, metadata),
  };
  return { owner, malformed: [...malformed, ...findMisplaced(metadata)] };
}

/** The owners of a namespace, or of all, that have to be reconciled. Throws ClusterError. */
export async function listOwners(
  cluster: Pick<Cluster, "list">,
  resources: readonly Resource[],
  namespace: string | undefined,
): Promise<readonly ObjectRef[]> {
  const lists = resources.map(async (resource) => {
    const items = await listIfServed(cluster, resource, namespace);
    return items
      .filter(isOfConcern)
      .map(({ metadata }): ObjectRef => ({ resource, namespace: metadata.namespace ?? "", name: metadata.name }));
  });
  return (await Promise.all(lists)).flat();
}
