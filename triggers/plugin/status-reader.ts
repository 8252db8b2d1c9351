/** Reads the status by LISTs of the plugin's own, and decides it as the page does: by the function that shows the status. */
import { hostname } from "node:os";
import { mapLimit } from "../../functions/shared/base/map-limit.ts";
import { createListReader } from "../../functions/shared/cache/listing.ts";
import type { StatusContext } from "../../functions/shared/contract/definition.ts";
import type { PersonEntry, Status } from "../../functions/shared/contract/status.ts";
import {
  type Cluster,
  ClusterError,
  isRightMissing,
  isTransient,
  type ListQuery,
  lackOf,
  type ObjectList,
} from "../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import { readGroup } from "../../functions/shared/workloads/group-key.ts";
import { statefulSetNameOf } from "../../functions/shared/workloads/pods.ts";
import { type GroupKey, groupPathOf } from "../../functions/shared/workloads/statefulsets.ts";
import manifest from "../../package.json" with { type: "json" };
import { statusFunctions, table } from "../table.ts";
import { findGroups, findNamespaces, NotFound, notFound } from "./groups.ts";
import { createShadow } from "./inspection.ts";

export interface StatusScope {
  /** Undefined: all. */
  readonly namespace: string | undefined;
  /** Undefined: all. */
  readonly group: string | undefined;
}

/** The groups of these many namespaces are looked up at once. */
const mostNamespacesAtOnce = 4;
/** A command waits for its own reads until the cluster gives them up, and not as short a time as many viewers of a page do. */
const longestReadMs = 60_000;

type Omission = Status["leftOut"][number];

/** Reads the status again with each call. A later call goes on while the API server is away. */
export class StatusReader {
  readonly #cluster: Cluster;
  readonly #scope: StatusScope;
  readonly #read: () => Promise<Status | undefined>;
  /** By path: every group that was found. A group that vanishes is read once more, which shows that it is gone. */
  #keys: ReadonlyMap<string, GroupKey> | undefined;
  #leftOut: readonly Omission[] = [];

  constructor(cluster: Cluster, scope: StatusScope) {
    this.#cluster = cluster;
    this.#scope = scope;
    this.#read = openStatus(shareLists(cluster), scope, () => [...(this.#keys?.values() ?? [])]);
  }

  /** Throws NotFound, ClusterError. */
  async read(): Promise<Status> {
    const { group, namespace } = this.#scope;
    const keys = await this.#findKeys();
    this.#keys = new Map([...(this.#keys ?? []), ...keys.map((key) => [groupPathOf(key), key] as const)]);
    const status = await this.#read();
    if (status === undefined) throw nothingRead();
    const all = { ...status, leftOut: [...this.#leftOut, ...status.leftOut] };
    if (group === undefined) return all;
    if (status.groups.length > 0 || all.leftOut.length > 0) return narrow(all, group);
    if (namespace !== undefined) throw notFound({ namespace, group }, keys);
    throw new NotFound(`there is no group ${JSON.stringify(group)} in any namespace`);
  }

  /** Once they are known, an API server that is away leaves them as they were. */
  async #findKeys(): Promise<readonly GroupKey[]> {
    const missing = new Map<string, Omission>();
    try {
      const keys = await findKeys(omitForbidden(this.#cluster, missing), this.#scope.namespace);
      this.#leftOut = [...missing.values()];
      return keys;
    } catch (error) {
      if (this.#keys === undefined || !isTransient(error)) throw error;
      return [...this.#keys.values()];
    }
  }
}

async function findKeys(cluster: Cluster, namespace: string | undefined): Promise<readonly GroupKey[]> {
  const namespaces = namespace === undefined ? await findNamespaces(cluster) : [namespace];
  const found = await mapLimit(namespaces, mostNamespacesAtOnce, (one) => findGroups(createShadow(cluster, one), one));
  return found.flatMap(({ keys }) => keys);
}

/** What the function that shows the status gets in a server, here over LISTs. */
function openStatus(
  cluster: Cluster,
  { namespace, group }: StatusScope,
  groups: () => readonly GroupKey[],
): () => Promise<Status | undefined> {
  const namespaces = namespace === undefined ? undefined : [namespace];
  const [definition] = statusFunctions;
  const reader = createListReader(omitForbidden(cluster, new Map()), namespaces);
  const context: StatusContext = {
    cluster: wrapCluster(cluster, { sleep: (_, signal) => cluster.sleep(longestReadMs, signal) }),
    cache: reader,
    groups,
    ...(group === undefined ? {} : { group }),
    guards: Object.fromEntries(table.map(({ name, guards }) => [name, guards])),
    suspendsVolumes: true,
    answeredBy: { replica: hostname(), version: manifest.version, mode: "shadow", namespaces: namespaces ?? null },
  };
  return definition?.open(context) ?? (async () => undefined);
}

/** The same cluster, but equal LISTs that are under way at one time are one. */
function shareLists(cluster: Cluster): Cluster {
  const listing = new Map<string, Promise<unknown>>();
  const list = (resource: string, query: ListQuery) => {
    const asked = JSON.stringify([resource, query]);
    const shared = listing.get(asked) ?? cluster.list(resource as "pods", query).finally(() => listing.delete(asked));
    listing.set(asked, shared);
    return shared;
  };
  return wrapCluster(cluster, { list: list as Cluster["list"] });
}

/** What groups can be found without. */
const dispensable: Readonly<Record<string, string>> = {
  leases: "groups with nothing but a ledger",
  zoneawarepoddisruptionbudgets: "groups of budgets",
};

/** The same cluster, but types that the user may not list, and that a status can do without, are empty. `missing` gets them. */
function omitForbidden(cluster: Cluster, missing: Map<string, Omission>): Cluster {
  const list = async (resource: string, query: ListQuery): Promise<ObjectList<unknown>> => {
    try {
      return await cluster.list(resource as "pods", query);
    } catch (error) {
      const part = dispensable[resource];
      if (part === undefined || !isRightMissing(error)) throw error;
      const since = new Date(cluster.serverTimeMs()).toISOString();
      missing.set(part, { part, why: lackOf(error), since });
      return { items: [], resourceVersion: "0" };
    }
  };
  return wrapCluster(cluster, { list: list as Cluster["list"] });
}

/** What is about one group, its ledger, its zones, or pods and volume claims of these. */
function narrow(status: Status, group: string): Status {
  const isOfOwner = namedAfterOwner(group);
  const zones = new Set(
    status.groups.flatMap((one) =>
      [group, ledgerName(group), ...one.zones.map(({ name }) => name)].map((name) => `${one.namespace}/${name}`),
    ),
  );
  const isOfGroup = ({ namespace, object }: Pick<PersonEntry, "namespace" | "object">): boolean => {
    if (isOfOwner?.(object)) return true;
    const owner = statefulSetNameOf(object);
    // Before the name of its pod, that of a volume claim has the name of its template.
    const beginnings = isOfOwner ? [] : [...owner.matchAll(/-/g)].map(({ index }) => owner.slice(index + 1));
    return [object, owner, ...beginnings].some((name) => zones.has(`${namespace}/${name}`));
  };
  return {
    ...status,
    needsPerson: status.needsPerson.filter(isOfGroup),
    waiting: status.waiting?.filter(({ namespace, zone }) => zones.has(`${namespace}/${zone}`)) ?? null,
    events: status.events?.filter(isOfGroup) ?? null,
    volumes:
      status.volumes?.filter(
        ({ namespace, name, zone }) => zones.has(`${namespace}/${zone}`) || isOfGroup({ namespace, object: name }),
      ) ?? null,
  };
}

/** Another owner than a StatefulSet names its pods and volume claims after itself. Undefined for a group of StatefulSets. */
function namedAfterOwner(group: string): ((object: string) => boolean) | undefined {
  const parsed = readGroup(group);
  if (parsed.kind !== "owner") return undefined;
  return (object) => object === parsed.name || object.startsWith(`${parsed.name}-`);
}

function nothingRead(): ClusterError {
  const message = `nothing was read within ${longestReadMs / 1_000} s`;
  return new ClusterError({ code: 0, reason: "Timeout", message, verb: "list", resource: "leases" });
}
