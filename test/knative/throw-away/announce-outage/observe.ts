/** The ConfigMaps that a StatefulSet owns, and what the ledger says of them. */

import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { KeySources, ObjectRef } from "../../../../functions/shared/contract/keys.ts";
import { type Cluster, type ConfigMapObject, hasCode } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { GroupObservation } from "../../../../functions/shared/transaction/observe-group.ts";
import { parseOrdinal } from "../../../../functions/shared/workloads/pods.ts";
import { isStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import type { Approval, OutageSnapshot } from "./decide.ts";

export const name = "announce-outage";

/** Where a ConfigMap names the claim that was made for it: its anchor. */
export const anchorAnnotation = "example.com/outage";

export function claimIdOf(uid: string): string {
  return `outage-${uid}`;
}

/** The StatefulSet that owns a ConfigMap; none where none does. */
export function ownersOf({ metadata }: ConfigMapObject): readonly ObjectRef[] {
  const { namespace = "", ownerReferences = [] } = metadata;
  const owners = ownerReferences.filter(({ kind }) => kind === "StatefulSet");
  return owners.map((owner) => ({ resource: "statefulsets", namespace, name: owner.name }));
}

/** The owners of all ConfigMaps of a namespace, or of all that are served. Throws ClusterError. */
export async function listOwners({ cluster }: Context, namespace: string | undefined): Promise<readonly ObjectRef[]> {
  const { items } = await cluster.list("configmaps", namespace === undefined ? {} : { namespace });
  const owners = items.flatMap(ownersOf);
  return [...new Map(owners.map((owner) => [`${owner.namespace}/${owner.name}`, owner])).values()];
}

/** The owners of the ConfigMaps that name a node: of it alone, no namespace can be told. Throws ClusterError. */
export async function listOwnersOnNode(
  { cluster, namespaces }: KeySources,
  node: string,
): Promise<readonly ObjectRef[]> {
  const scopes = namespaces?.map((namespace) => ({ namespace })) ?? [{}];
  const lists = await Promise.all(scopes.map((scope) => cluster.list("configmaps", scope)));
  return lists.flatMap(({ items }) => items.filter(({ data }) => data?.node === node).flatMap(ownersOf));
}

async function isGone(cluster: Pick<Cluster, "get">, node: string): Promise<boolean> {
  try {
    await cluster.get("nodes", { namespace: "", name: node });
    return false;
  } catch (error) {
    if (hasCode(error, 404)) return true;
    throw error;
  }
}

/** What a ConfigMap names as KIND.GROUP/NAME. Throws ClusterError, also if the API server does not serve the kind. */
async function approvalOf(
  cluster: Pick<Cluster, "get" | "resourceOf">,
  namespace: string,
  by: string | undefined,
): Promise<Approval | undefined> {
  if (by === undefined) return undefined;
  const [, kind = "", group = "", name = ""] = /^([^.]+)\.([^/]+)\/(.+)$/.exec(by) ?? [];
  const { resource } = await cluster.resourceOf(group, kind);
  const { spec } = await cluster.get(resource, { namespace, name }, { subresource: "scale" });
  return { by, isGiven: (spec?.replicas ?? 0) > 0 };
}

/** Throws ClusterError. */
export async function observe(
  { namespace, name: owner }: ObjectRef,
  { ledger, view }: GroupObservation,
  { cluster }: { readonly cluster: Pick<Cluster, "get" | "list" | "resourceOf"> },
): Promise<OutageSnapshot> {
  const statefulSet = view.workloads.filter(isStatefulSet).find((one) => one.name === owner);
  if (statefulSet === undefined) return { statefulSet, outages: [] };
  const { items } = await cluster.list("configmaps", { namespace });
  const pods = new Map([...view.podsOf(statefulSet)].map((pod) => [pod.ordinal, pod]));
  const claimed = new Set(ledger.claims.map(({ id }) => id));
  const isOwned = (item: ConfigMapObject) => ownersOf(item).some((one) => one.name === owner);
  const owned = items.filter((item) => isOwned(item) && item.data?.node && parseOrdinal(item.data.ordinal ?? "") >= 0);
  const outages = owned.map(async ({ metadata: { name: configMap, uid, annotations }, data = {} }) => {
    const { ordinal: text = "", node = "" } = data;
    const ordinal = parseOrdinal(text);
    const id = claimIdOf(uid);
    const isAnnounced = claimed.has(id) && annotations?.[anchorAnnotation] === id;
    const [podUid, isNodeGone] = [pods.get(ordinal)?.uid, await isGone(cluster, node)];
    const approval = await approvalOf(cluster, namespace, data["approved-by"]);
    return { namespace, name: configMap, uid, ordinal, node, isNodeGone, approval, podUid, isAnnounced };
  });
  return { statefulSet, outages: await Promise.all(outages) };
}
