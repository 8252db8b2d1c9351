/** The reads of a group whose volumes are suspended: by LISTs after its ledger was read (rule R21). */

import { claims, read } from "../annotations/table.ts";
import { type GroupCache, membersNeed } from "../cache/cache.ts";
import type { Context } from "../contract/context.ts";
import type { KeyLookUp, KnownKeys } from "../contract/keys.ts";
import type { Cluster, ObjectKey, PvcObject } from "../kubernetes/cluster.ts";
import { find, isNamespaceEnding } from "../kubernetes/find.ts";
import { type Claim, parseClaims } from "../ledger/claim.ts";
import { listLedgerLeases } from "../ledger/lease.ts";
import { listClaimed } from "../transaction/claims.ts";
import { findMembers, type Member, parseVolumeUser, type Stray, type VolumeUser } from "../volumes/members.ts";
import { findOwned, groupOfPvc, notOf } from "../volumes/owners.ts";
import { isSuspensionAsked, type Pvc, parsePvc } from "../volumes/pvc.ts";
import { type OwnerRemovalPolicy, parseOwnerRemovalPolicy } from "../volumes/removal-policy.ts";
import { ordinalOfPvc, parseSuspendableSet, type SuspendableSet, setNamesIn } from "../volumes/suspendable-set.ts";
import { foundationClusterOf, isOwnerGroup } from "../workloads/group-key.ts";
import { type GroupKey, groupPathOf } from "../workloads/statefulsets.ts";
import type { Clocks } from "./clocks.ts";

type Lists = Pick<Cluster, "list">;

/** The groups whose ledgers hold a claim of any kind: that of a volume outlives the volume. */
const listClaiming = listClaimed(() => true);

/** The groups in which a user asks, or Sluice has begun something, in a namespace or in all. Throws ClusterError. */
export async function listKeys(context: Context, namespace: string | undefined): Promise<readonly GroupKey[]> {
  const { cluster, cache } = context;
  const [asked, claimed] = await Promise.all([listAsked(cluster, namespace), listClaiming(context, namespace)]);
  const groups = await Promise.all(byNamespace(asked).map(([where, names]) => groupsOf(cluster, cache, where, names)));
  const keys = [...groups.flat(), ...asked.flatMap(ownerKeyOf), ...claimed];
  return [...new Map(keys.map((key) => [groupPathOf(key), key])).values()];
}

/** The group of the owner that a volume claim names, if it names one. */
function ownerKeyOf(object: PvcObject): readonly GroupKey[] {
  const group = groupOfPvc(parsePvc(object));
  return group === undefined ? [] : [{ namespace: object.metadata.namespace ?? "", group }];
}

/** The group of the StatefulSet that a volume claim was made for, or of the owner that it names: known, or found by reads. */
export function keysOfPvc({ namespace, name }: ObjectKey, known: KnownKeys): readonly GroupKey[] | KeyLookUp<GroupKey> {
  const names = setNamesIn(name);
  const groups = names.map((set) => known.groupOf(namespace, set)).filter((group) => group !== undefined);
  if (groups.length > 0) return groups;
  return {
    name: `volume claims ${namespace}/${name}`,
    async find({ cluster, cache }) {
      const [found, object] = await Promise.all([
        names.length === 0 ? [] : groupsOf(cluster, cache, namespace, [name]),
        find(cluster, "persistentvolumeclaims", { namespace, name }),
      ]);
      return [...found, ...(object === undefined ? [] : ownerKeyOf(object))];
    },
  };
}

async function groupsOf(
  cluster: Lists,
  cache: GroupCache,
  namespace: string,
  names: readonly string[],
): Promise<readonly GroupKey[]> {
  const sets = await listSets(cluster, namespace);
  const owners = sets.filter((set) => names.some((name) => ordinalOfPvc(set, name) !== undefined));
  const keys = await Promise.all(owners.map((set) => cache.groupOf(namespace, set.name)));
  return keys.filter((key) => key !== undefined);
}

function byNamespace(objects: readonly PvcObject[]): readonly (readonly [string, readonly string[]])[] {
  const grouped = Map.groupBy(objects, ({ metadata }) => metadata.namespace ?? "");
  return [...grouped].map(([namespace, some]) => [namespace, some.map(({ metadata }) => metadata.name)]);
}

async function listAsked(cluster: Lists, namespace: string | undefined): Promise<readonly PvcObject[]> {
  const { items } = await cluster.list("persistentvolumeclaims", namespace === undefined ? {} : { namespace });
  return items.filter(isSuspensionAsked);
}

/** The claims in the ledgers of a namespace, or of all; malformed claims count as none. Throws ClusterError. */
export async function listLedgerClaims(cluster: Lists, namespace: string | undefined): Promise<readonly Claim[]> {
  const leases = await listLedgerLeases(cluster, namespace);
  return leases.flatMap(({ metadata }) => {
    try {
      return parseClaims(read(claims, metadata) ?? "", (why) => new Error(String(why)));
    } catch {
      return [];
    }
  });
}

async function listSets(cluster: Lists, namespace: string): Promise<readonly SuspendableSet[]> {
  const { items } = await cluster.list("statefulsets", { namespace });
  return items.map(parseSuspendableSet);
}

/** The objects of a namespace that concern suspension, at a moment that is no earlier than the reads. */
export interface Suspendables extends Clocks {
  /** The members of the StatefulSets that were asked for, with all that have volume claims. */
  readonly members: readonly Member[];
  readonly isNamespaceEnding: boolean;
}

/** Both clocks at this moment. */
export function clocksOf(cluster: Pick<Cluster, "serverTimeMs" | "wallTimeMs">): Clocks {
  return { nowMs: cluster.serverTimeMs(), wallMs: cluster.wallTimeMs() };
}

/**
 * The members of these StatefulSets, or those of the owner whose group it is. Where `isLive` says so, their volume claims
 * and their StatefulSets are read once more by GETs, which tell who has written what. Throws ClusterError.
 */
export async function readMembers(
  { cluster }: Pick<Context, "cluster">,
  { namespace, group }: GroupKey,
  statefulSets: readonly string[],
  isLive: (member: Member) => boolean = () => false,
): Promise<Suspendables> {
  const [sets, listed, pods, ending, removalPolicy] = await Promise.all([
    listSets(cluster, namespace),
    cluster.list("persistentvolumeclaims", { namespace }),
    listUsers(cluster, namespace),
    isNamespaceEnding(cluster, namespace),
    readRemovalPolicy(cluster, { namespace, group }),
  ]);
  const pvcs = listed.items.map(parsePvc);
  const all = isOwnerGroup(group)
    ? findOwned(group, notOf(sets, pvcs), pods, removalPolicy)
    : findMembers(
        sets.filter(({ name }) => statefulSets.includes(name)),
        pvcs,
        pods,
      );
  const live = all.filter(isLive);
  // In parallel with the volume claims, because the acts on them have few seconds left, however slow the API server is (rule
  // R9).
  const liveSets = readLiveSets(cluster, live);
  const read = all.map((one) => (live.includes(one) ? readLive(cluster, one, liveSets) : one));
  const members = await Promise.all(read);
  return {
    members: members.filter(({ pvcs }) => pvcs.length > 0),
    ...clocksOf(cluster),
    isNamespaceEnding: ending,
  };
}

/**
 * Whether a user asks for something in a group, or a function has begun it; `gone`: no StatefulSet is left of one that is not an
 * owner's. Each call is a LIST of all volume claims of the namespace. Throws ClusterError.
 */
export async function asksForSuspension({ cluster, cache }: Context, key: GroupKey): Promise<"yes" | "no" | "gone"> {
  if (isOwnerGroup(key.group)) {
    const asked = await listAsked(cluster, key.namespace);
    return asked.flatMap(ownerKeyOf).some(({ group }) => group === key.group) ? "yes" : "no";
  }
  const { workloads } = await cache.read(key, membersNeed);
  if (workloads.length === 0) return "gone";
  const asked = await listAsked(cluster, key.namespace);
  if (asked.length === 0) return "no";
  const sets = await listSets(cluster, key.namespace);
  const own = sets.filter(({ name }) => workloads.some((one) => one.name === name));
  const isOwn = ({ metadata }: PvcObject) => own.some((set) => ordinalOfPvc(set, metadata.name) !== undefined);
  return asked.some(isOwn) ? "yes" : "no";
}

/** The owner's current policy about its members; undefined if it is gone, or is of a kind without one. */
async function readRemovalPolicy(
  cluster: Pick<Cluster, "get">,
  { namespace, group }: GroupKey,
): Promise<OwnerRemovalPolicy | undefined> {
  const name = foundationClusterOf(group);
  const object = name === undefined ? undefined : await find(cluster, "foundationdbclusters", { namespace, name });
  return object && parseOwnerRemovalPolicy(object);
}

/** Their StatefulSets, by name; one that is gone, or was replaced by now, counts as being deleted. */
async function readLiveSets(
  cluster: Pick<Cluster, "get">,
  members: readonly Member[],
): Promise<ReadonlyMap<string, SuspendableSet>> {
  const sets = new Map(members.map(({ set }) => [set.name, set]));
  const read = [...sets.values()].map(async (set): Promise<SuspendableSet> => {
    // A zone of another owner is no object.
    if (set.owner !== undefined) return set;
    const object = await find(cluster, "statefulsets", { namespace: set.namespace, name: set.name });
    const now = object === undefined ? undefined : parseSuspendableSet(object);
    return now?.uid === set.uid ? now : { ...set, isDeleting: true };
  });
  return new Map((await Promise.all(read)).map((set) => [set.name, set]));
}

async function readLive(
  cluster: Pick<Cluster, "get">,
  member: Member,
  setsRead: Promise<ReadonlyMap<string, SuspendableSet>>,
): Promise<Member> {
  const read = member.pvcs.map(async ({ namespace, name }): Promise<Pvc[]> => {
    const object = await find(cluster, "persistentvolumeclaims", { namespace, name });
    return object === undefined ? [] : [parsePvc(object)];
  });
  const [sets, pvcs] = await Promise.all([setsRead, Promise.all(read)]);
  return { ...member, set: sets.get(member.set.name) ?? member.set, pvcs: pvcs.flat() };
}

/** Every pod of a namespace, by a consistent LIST: a pod that it lacks is gone. Throws ClusterError. */
async function listUsers(cluster: Lists, namespace: string): Promise<readonly VolumeUser[]> {
  const { items } = await cluster.list("pods", { namespace });
  return items.map(parseVolumeUser);
}

/**
 * The volume claims of a namespace, or of all, that are begun or asked for, and that neither a StatefulSet has nor an owner that
 * they name. Throws ClusterError.
 */
export async function listStrays(cluster: Cluster, namespace: string | undefined): Promise<readonly Stray[]> {
  const asked = await listAsked(cluster, namespace);
  const found = byNamespace(asked).map(async ([where, names]): Promise<Stray[]> => {
    const sets = await listSets(cluster, where);
    const strays = names.filter((name) => sets.every((set) => ordinalOfPvc(set, name) === undefined));
    if (strays.length === 0) return [];
    const [users, pvcs] = await Promise.all([
      listUsers(cluster, where),
      // A StatefulSet that came meanwhile has made none of these its own: the reads below are newer.
      Promise.all(strays.map((name) => find(cluster, "persistentvolumeclaims", { namespace: where, name }))),
    ]);
    return pvcs
      .filter((one) => one !== undefined)
      .map(parsePvc)
      .filter((pvc) => groupOfPvc(pvc) === undefined)
      .map((pvc) => ({ pvc, users: users.filter((user) => user.pvcNames.includes(pvc.name)) }));
  });
  return (await Promise.all(found)).flat();
}
