/** The rules that keep a deleted owner until its pods know (invariant M1), removed from the shipped function one at a time. */
import type {
  Cluster,
  Metadata,
  ObjectTypes,
  PodObject,
  Resource,
} from "../../../functions/shared/kubernetes/cluster.ts";
import { hasCode } from "../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster as wrapOne } from "../../../functions/shared/kubernetes/wrap-cluster.ts";
import { isObject, type JsonObject } from "../../fake-cluster/merge-patch.ts";
import type { Plan, PlannedSkipLabels, SkipDeed } from "../plan.ts";
import type { Wrappers } from "../replica.ts";
import { never, type RemovedRule, wrapCluster } from "../rules.ts";
import { noFaults } from "../simulated-cluster.ts";
import { appLabel, ourFinalizer, rabbitLabel } from "./owners.ts";
import { skippingWith } from "./scenarios.ts";
import { hookedNamespace } from "./stop-hooks.ts";

const usual: PlannedSkipLabels = {
  clusters: 2,
  replicas: 3,
  markers: 2,
  waitMs: 0,
  everyMs: 5_000,
  deeds: ["delete"],
  lagMs: 1_000,
  frozen: 0,
  blocking: 0.5,
  refuseMs: 0,
};

/** Owners are deleted again and again. Nothing else goes wrong. */
function deleting(plan: Plan, skipLabels: Partial<PlannedSkipLabels> = {}, changes: Partial<Plan> = {}): Plan {
  return skippingWith(plan, { ...usual, ...skipLabels }, changes);
}

/** The same while processes are stopped for up to a minute, and then go on as if nothing had happened. */
function stopping(plan: Plan, ...deeds: readonly SkipDeed[]): Plan {
  const trouble = { faults: { ...noFaults, latencyMs: 400 }, every: { ...never, stopProcess: 4_000 } };
  return deleting(plan, { markers: 3, everyMs: 2_000, blocking: 0, deeds: ["delete", ...deeds] }, trouble);
}

const isOwner = (resource: Resource) => resource === "rabbitmqclusters" || resource === "statefulsets";

function metadataIn(body: object): JsonObject {
  const { metadata } = body as { readonly metadata?: unknown };
  return isObject(metadata) ? metadata : {};
}

/** True for a patch that removes our finalizer. */
function isRelease(resource: Resource, body: object): boolean {
  const { finalizers } = metadataIn(body);
  return isOwner(resource) && Array.isArray(finalizers) && !finalizers.includes(ourFinalizer);
}

/** Changes what every LIST of the pods shows. */
function seenPods(
  see: (pods: PodObject[], cluster: Cluster) => PodObject[] | Promise<PodObject[]>,
  more: (cluster: Cluster) => Partial<Cluster> = () => ({}),
): Wrappers {
  return wrapCluster((cluster) => ({
    list: async (resource, query, options) => {
      const list = await cluster.list(resource, query, options);
      if (resource !== "pods" || query.namespace !== hookedNamespace) return list;
      return { ...list, items: (await see(list.items as PodObject[], cluster)) as ObjectTypes[typeof resource][] };
    },
    ...more(cluster),
  }));
}

function withMetadata(pod: PodObject, change: Partial<Metadata>): PodObject {
  return { ...pod, metadata: { ...pod.metadata, ...change } };
}

/** Once pods are labelled, the marker does not list them again: it remembers them as it found them, with their labels. */
const listedOnce: Wrappers = wrapCluster((cluster) => {
  const known = new Map<string, PodObject>();
  let isLabelled = false;
  return {
    list: async (resource, query, options) => {
      if (resource !== "pods" || query.namespace !== hookedNamespace) return cluster.list(resource, query, options);
      if (isLabelled) return { items: [...known.values()] as ObjectTypes[typeof resource][], resourceVersion: "1" };
      const list = await cluster.list(resource, query, options);
      known.clear();
      for (const pod of list.items as PodObject[]) known.set(pod.metadata.uid, pod);
      return list;
    },
    patch: async (resource, key, body, options) => {
      const after = await cluster.patch(resource, key, body, options);
      const { uid } = (after as PodObject).metadata;
      if (known.has(uid)) known.set(uid, after as PodObject);
      isLabelled = known.has(uid) || (isLabelled && !isRelease(resource, body));
      return after;
    },
  };
});

/** A refused label counts as present. */
const swallowed: Wrappers = {
  cluster: (cluster) => {
    const refused = new Map<string, JsonObject>();
    const see = (pods: PodObject[]) =>
      pods.map((pod) => {
        const { labels, annotations } = refused.get(pod.metadata.uid) ?? {};
        const more = (own: object | undefined, given: unknown) => ({ ...own, ...(isObject(given) ? given : {}) });
        return withMetadata(pod, {
          labels: more(pod.metadata.labels, labels) as Record<string, string>,
          annotations: more(pod.metadata.annotations, annotations) as Record<string, string>,
        });
      });
    const patch: Cluster["patch"] = async (resource, key, body, options) => {
      try {
        return await cluster.patch(resource, key, body, options);
      } catch (error) {
        if (resource !== "pods" || !hasCode(error, 403)) throw error;
        refused.set(String(metadataIn(body).uid), metadataIn(body));
        return { ...body } as never;
      }
    };
    return seenPods(see, () => ({ patch })).cluster?.(cluster) ?? cluster;
  },
};

/** Pods that have the label of a cluster count as its own, whatever their controllers are. */
const byLabel = seenPods(async (pods, cluster) => {
  const { items } = await cluster.list("rabbitmqclusters", { namespace: hookedNamespace });
  const uids = new Map(items.map(({ metadata }) => [metadata.name, metadata.uid]));
  return pods.map((pod) => {
    const uid = uids.get(pod.metadata.labels?.[appLabel] ?? "");
    const owner = { apiVersion: "rabbitmq.com/v1beta1", kind: "RabbitmqCluster", name: "", controller: true };
    return uid === undefined ? pod : withMetadata(pod, { ownerReferences: [{ ...owner, uid }] });
  });
});

/** Creates what is missing, as CreateOrUpdate does. */
const orCreate = wrapCluster((cluster) => ({
  patch: async (resource, key, body, options) => {
    try {
      return await cluster.patch(resource, key, body, options);
    } catch (error) {
      if (!isOwner(resource) || key.namespace !== hookedNamespace || !hasCode(error, 404)) throw error;
      const kind = { apiVersion: "rabbitmq.com/v1beta1", kind: "RabbitmqCluster" };
      const made = { ...kind, metadata: { name: key.name }, spec: {} };
      return (await cluster.create(resource, key.namespace, made)) as never;
    }
  },
}));

/** Every label looks as if it had been put long ago. */
const longLabelled = seenPods((pods) =>
  pods.map((pod) => {
    const { annotations, labels } = pod.metadata;
    if (labels?.[rabbitLabel] === undefined && annotations?.["sluice.dev/skip-labelled-at"] === undefined) return pod;
    return withMetadata(pod, {
      annotations: { ...annotations, "sluice.dev/skip-labelled-at": "2000-01-01T00:00:00Z" },
    });
  }),
);

/** Annotations of owners are only remembered, and never written. */
const untold = wrapCluster((cluster) => {
  const labelled = new Map<string, JsonObject>();
  const withLabel = <T>(object: T): T => {
    const { metadata } = object as { readonly metadata: Metadata };
    const annotations = labelled.get(metadata.uid);
    return annotations === undefined
      ? object
      : { ...object, metadata: { ...metadata, annotations: { ...metadata.annotations, ...annotations } } };
  };
  return {
    get: async (resource, key, options) => withLabel(await cluster.get(resource, key, options)),
    patch: async (resource, key, body, options) => {
      const { annotations, uid } = metadataIn(body);
      if (!isOwner(resource) || key.namespace !== hookedNamespace || !isObject(annotations))
        return cluster.patch(resource, key, body, options);
      labelled.set(String(uid), annotations);
      return withLabel(await cluster.get(resource, key)) as never;
    },
  };
});

/** A status that a marker reads looks very old. */
const longRemembered = wrapCluster((cluster) => ({
  get: async (resource, key, options) => {
    const object = await cluster.get(resource, key, options);
    const { annotations } = (object as { readonly metadata: Metadata }).metadata;
    const status = annotations?.["sluice.dev/skip-status"];
    if (status === undefined) return object;
    const aged = JSON.stringify({ ...JSON.parse(status), since: "2000-01-01T00:00:00Z" });
    const metadata = { ...object.metadata, annotations: { ...annotations, "sluice.dev/skip-status": aged } };
    return { ...object, metadata };
  },
}));

/** Patches carry neither a uid nor a revision. */
const unconditional = (isMeant: (resource: Resource, body: object) => boolean) =>
  wrapCluster((cluster) => ({
    patch: (resource, key, body, options) => {
      if (key.namespace !== hookedNamespace || !isMeant(resource, body))
        return cluster.patch(resource, key, body, options);
      const { uid: _, resourceVersion: __, ...metadata } = metadataIn(body);
      return cluster.patch(resource, key, { ...body, metadata }, options);
    },
  }));

export const skipLabelRules: readonly RemovedRule[] = [
  {
    rule: "M1-order",
    removed: "the LIST after the labels: who was labelled is all that there is",
    breaks: ["M1"],
    aim: (plan) => deleting(plan, { deeds: ["delete", "deletePod", "scale"] }),
    wrappers: listedOnce,
  },
  {
    rule: "M1-refused",
    removed: "keeping the finalizer while a label is refused: the error is swallowed",
    breaks: ["M1"],
    aim: (plan) => deleting(plan, { deeds: ["delete", "refuse"], refuseMs: 60_000 }),
    wrappers: swallowed,
  },
  {
    rule: "M1-owner",
    removed: "the uids of controllers: members are those that have the owner's label",
    breaks: ["M1"],
    aim: (plan) => deleting(plan),
    wrappers: byLabel,
  },
  {
    rule: "M1-create",
    removed: "patching what is there alone: what is gone is made again, as CreateOrUpdate does",
    breaks: ["M1"],
    aim: (plan) => deleting(plan, { markers: 3, deeds: ["delete", "strip"] }),
    wrappers: orCreate,
  },
  {
    rule: "M1-wait",
    removed: "waiting until stop hooks see the label",
    breaks: ["M1"],
    aim: (plan) => deleting(plan, { waitMs: 90_000, lagMs: 60_000, blocking: 1 }),
    wrappers: longLabelled,
  },
  {
    rule: "M1-told",
    removed: "saying on the owner that it goes by its deadline, before it does",
    breaks: ["M1"],
    aim: (plan) => deleting(plan, { waitMs: 90_000, deeds: ["delete", "deadline", "refuse"], refuseMs: 600_000 }),
    wrappers: untold,
  },
  {
    rule: "M1-uid",
    removed: "the uid and the revision as conditions of labels",
    breaks: ["M1"],
    aim: (plan) => stopping(plan),
    wrappers: unconditional((resource) => resource === "pods"),
  },
  {
    rule: "M1-uid",
    removed: "the uid and the revision as conditions of releases",
    breaks: ["M1"],
    aim: (plan) => stopping(plan, "hold", "edit"),
    wrappers: unconditional((resource) => isOwner(resource)),
  },
  {
    rule: "M1-age",
    removed: "acting within 15 s of a reconcile: the process hung and does not know",
    breaks: ["M1"],
    aim: (plan) => stopping(plan),
    wrappers: { markers: (cluster) => wrapOne(cluster, { monotonicMs: () => 0 }) },
  },
  {
    rule: "M1-withdrawn",
    removed: "looking for a minute for labels that come after they were withdrawn",
    breaks: ["L1"],
    aim: (plan) =>
      deleting(
        plan,
        { clusters: 1, everyMs: 1_500, blocking: 0, deeds: ["stopAll", "stopAll", "deletePod"] },
        { faults: { ...noFaults, latencyMs: 200 } },
      ),
    wrappers: longRemembered,
  },
];
