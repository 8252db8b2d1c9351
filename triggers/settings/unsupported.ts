/**
 * What rollout-operator did and Sluice does not do yet. Whoever puts Sluice in its place and counts on that is told at the start:
 * nothing would prepare a downscale any more, and a webhook that nobody answers may keep every StatefulSet from being changed.
 * It is told, and no more: whoever may write a StatefulSet must not be able to end the process that answers reviews.
 */
import {
  type Cluster,
  ClusterError,
  hasCode,
  type KnownResource,
  type ObjectKey,
  resources,
  type WebhookConfigurationObject,
} from "../../functions/shared/kubernetes/cluster.ts";
import { read, unsupportedOn, webhookNamespace } from "../../functions/shared/objects/vocabulary.ts";
import { causeOf } from "../wake/passes.ts";

export interface FindingsOptions {
  readonly cluster: Pick<Cluster, "list" | "sleep">;
  /** All of them where it is undefined. */
  readonly namespaces: readonly string[] | undefined;
  /** Whether StatefulSets are looked at, too, and not webhook configurations alone. */
  readonly statefulSets: boolean;
  /** What the API server calls us: `SERVICE.NAMESPACE.svc`, or another name that no Service has. */
  readonly dnsName: string;
}

/** What was found, a sentence for each object, and what could not be looked at for a right that is missing. */
export interface Findings {
  readonly found: readonly string[];
  readonly unseen: readonly string[];
}

const tryAgainMs = 2_000;
/** Where rollout-operator answers reviews and nobody here does. */
const unansweredPaths: readonly string[] = [];
const configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] as const;

/** Looks once, as soon as the API server answers, however long that takes; undefined when the signal is given before. */
export async function lookForUnsupported(
  options: FindingsOptions,
  stopped: AbortSignal,
): Promise<Findings | undefined> {
  const { cluster, namespaces } = options;
  while (!stopped.aborted) {
    const found: string[] = [];
    const unseen: string[] = [];
    const look = async (work: () => Promise<string[]>): Promise<void> => {
      try {
        found.push(...(await work()));
      } catch (error) {
        if (!hasCode(error, 403)) throw error;
        unseen.push(causeOf(error));
      }
    };
    try {
      for (const namespace of options.statefulSets ? (namespaces ?? [undefined]) : []) {
        await look(() => lookAtStatefulSets(cluster, namespace, stopped));
      }
      for (const resource of configurations) await look(() => lookAtConfigurations(options, resource, stopped));
      return { found, unseen };
    } catch (error) {
      // Others say that the API server does not answer.
      if (!(error instanceof ClusterError)) throw error;
      await cluster.sleep(tryAgainMs, stopped);
    }
  }
  return undefined;
}

async function lookAtStatefulSets(
  cluster: FindingsOptions["cluster"],
  namespace: string | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  const { items } = await cluster.list("statefulsets", namespace === undefined ? {} : { namespace }, { signal });
  return items.flatMap(({ metadata }) => {
    const uses = unsupportedOn(metadata).join(", ");
    if (uses === "") return [];
    return [`StatefulSet ${metadata.namespace}/${metadata.name} uses what Sluice does not do yet: ${uses}`];
  });
}

async function lookAtConfigurations(
  options: FindingsOptions,
  resource: (typeof configurations)[number],
  signal: AbortSignal,
): Promise<string[]> {
  const { items } = await options.cluster.list(resource, {}, { signal });
  return items.flatMap((object) => unansweredIn(options, resource, object));
}

/** The webhooks of a configuration that is ours, by its label or by its Service, which nobody answers. */
function unansweredIn(
  { namespaces, dnsName }: FindingsOptions,
  resource: KnownResource,
  object: WebhookConfigurationObject,
): string[] {
  const isServed = (namespace: string) => namespaces === undefined || namespaces.includes(namespace);
  const labelled = read(webhookNamespace, object.metadata);
  const isLabelled = labelled !== undefined && isServed(labelled);
  const isOurs = (service: ObjectKey | undefined) =>
    service !== undefined && `${service.name}.${service.namespace}.svc` === dnsName;
  const unanswered = (object.webhooks ?? []).flatMap(({ clientConfig, failurePolicy = "Fail" }) => {
    const { service, url } = clientConfig;
    const path = url === undefined ? (service?.path ?? "/") : new URL(url).pathname;
    const isAsked = isLabelled || isOurs(service);
    return isAsked && unansweredPaths.includes(path) ? [{ path, failurePolicy }] : [];
  });
  if (unanswered.length === 0) return [];
  const { kind } = resources[resource];
  const asked = [...new Set(unanswered.map(({ path }) => path))].join(" and ");
  const isRefused = unanswered.some(({ failurePolicy }) => failurePolicy === "Fail");
  const effect = isRefused
    ? "what it reviews can no longer be changed"
    : "what it reviews goes through without a review";
  return [`${kind} ${object.metadata.name} asks at ${asked}, where nobody answers: ${effect}`];
}
