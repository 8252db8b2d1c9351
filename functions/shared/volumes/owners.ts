/**
 * Members of an owner that is no StatefulSet: pods with volume claims that name it (spec suspend-before-delete 3.5). A zone is
 * what a volume claim says it is, and the pods of a zone are counted as those of a StatefulSet. Pure.
 */

import { podSelector, suspendTogether, usualWaitMs } from "../annotations/suspension.ts";
import { leastNumber } from "../ledger/claim.ts";
import { groupOfOwner } from "../workloads/group-key.ts";
import { largestOrdinal } from "../workloads/pods.ts";
import { findMembers, type Member, type VolumeUser } from "./members.ts";
import { labelled, type Pvc, valueIn } from "./pvc.ts";
import { type OwnerRemovalPolicy, strictestMode } from "./removal-policy.ts";
import { ordinalOfPvc, type SuspendableSet, type SuspensionPolicy } from "./suspendable-set.ts";

/** Zone of a volume claim that has neither an annotation nor a label about its zone. */
export const unknownZone = "unknown";

/** The group whose ledger a volume claim belongs to, by the owner that it names; undefined without a readable owner. */
export function groupOfPvc({ owned }: Pvc): string | undefined {
  const owner = owned && valueIn(owned.owner);
  return owner === undefined ? undefined : groupOfOwner(owner);
}

/**
 * The members of a group of an owner, by zone and name. `claims` and `pods` are those of its namespace; `policy`: the owner's own
 * settings, as they are now, where it has any.
 */
export function findOwned(
  group: string,
  pvcs: readonly Pvc[],
  pods: readonly VolumeUser[],
  removalPolicy?: OwnerRemovalPolicy,
): readonly Member[] {
  const own = pvcs.filter((pvc) => groupOfPvc(pvc) === group);
  const policy = strictest(own, removalPolicy);
  const users = usersByPvc(pods);
  const elsewhere = new Set(pvcs.filter((pvc) => (groupOfPvc(pvc) ?? group) !== group).map(({ name }) => name));
  const sets = new Map<string, SuspendableSet>();
  // When a pod has gone that Sluice did not let go, only its volume claims show that they belonged together: each of them names
  // all.
  const partners = new Map(own.flatMap(({ together }) => together.map((name) => [name, together[0] ?? name] as const)));
  const together = Map.groupBy(
    own,
    (pvc) => podOf(pvc, users)?.uid ?? partners.get(pvc.name) ?? pvc.podUid ?? pvc.name,
  );
  const found = [...together.values()].map((some): Omit<Member, "ordinal"> => {
    const sorted = some.sort((one, other) => (one.name < other.name ? -1 : 1));
    const [first] = sorted as [Pvc];
    const pod = podOf(first, users);
    const zone = zoneOf(sorted, pod);
    const set = sets.get(zone) ?? zoneAsSet(group, zone, first.namespace, policy);
    sets.set(zone, set);
    const others = sorted.flatMap(({ name }) => users.get(name) ?? []).filter(({ uid }) => uid !== pod?.uid);
    const foreign = pod?.pvcNames.filter((name) => elsewhere.has(name)) ?? [];
    return { set, name: pod?.name ?? first.name, pvcs: sorted, pod, others: [...new Set(others)], foreign };
  });
  return numbered(found);
}

/**
 * The names of the other volume claims of the same pod. A StatefulSet's are known by their names, another owner's only by their
 * pod.
 */
export function partnerAnnotations({ set, pvcs }: Pick<Member, "set" | "pvcs">): Readonly<Record<string, string>> {
  if (set.owner === undefined || pvcs.length < 2) return {};
  return { [suspendTogether.key]: partnersOf(pvcs) };
}

/** True if its pod exists, and a volume claim does not yet name the pod's others, which go or stay with it. */
export function hasNewPartners({ set, pvcs, pod }: Member): boolean {
  if (set.owner === undefined || pvcs.length < 2 || pod === undefined) return false;
  return pvcs.some(({ together }) => together.join() !== partnersOf(pvcs));
}

function partnersOf(pvcs: readonly Pvc[]): string {
  return pvcs.map(({ name }) => name).join();
}

type Users = ReadonlyMap<string, readonly VolumeUser[]>;

function usersByPvc(pods: readonly VolumeUser[]): Users {
  const users = new Map<string, VolumeUser[]>();
  for (const pod of pods)
    for (const claim of pod.pvcNames) {
      const some = users.get(claim);
      if (some === undefined) users.set(claim, [pod]);
      else some.push(pod);
    }
  return users;
}

/** The pod that has the volume: the one that Sluice let go while it exists, otherwise another existing one. */
function podOf({ name, podUid }: Pvc, all: Users): VolumeUser | undefined {
  const users = all.get(name) ?? [];
  return users.find(({ uid }) => uid === podUid) ?? users.find(({ isTerminating }) => !isTerminating) ?? users[0];
}

function zoneOf(pvcs: readonly Pvc[], pod: VolumeUser | undefined): string {
  const fields = pvcs.flatMap(({ owned }) => owned ?? []);
  const stated = fields.find(({ zone }) => zone !== undefined)?.zone;
  const byPod = fields.map((one) => labelled(pod?.labels, one.zoneLabel)).find((zone) => zone !== undefined);
  return stated ?? byPod ?? unknownZone;
}

/** What its ledger calls a member: it has no ordinal, so that its first volume claim's name makes a number that stays. */
function numbered(found: readonly Omit<Member, "ordinal">[]): readonly Member[] {
  const taken = new Set<string>();
  const byName = found.toSorted((one, other) => (firstPvc(one) < firstPvc(other) ? -1 : 1));
  const members = byName.map((member): Member => {
    let ordinal = numberOf(firstPvc(member));
    // Two of one zone hardly ever have the same number.
    while (taken.has(`${member.set.name} ${ordinal}`)) ordinal = ordinal === largestOrdinal ? leastNumber : ordinal + 1;
    taken.add(`${member.set.name} ${ordinal}`);
    return { ...member, ordinal };
  });
  return members.sort((one, other) => (one.set.name < other.set.name ? -1 : one.set.name > other.set.name ? 1 : 0));
}

const firstPvc = ({ pvcs }: Pick<Member, "pvcs">): string => pvcs[0]?.name ?? "";

/** FNV-1a, of 32 bits, brought into the upper half of the ordinals that Kubernetes has. */
function numberOf(name: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return leastNumber + (hash >>> 2);
}

/** A zone of an owner as members have it. */
export function zoneAsSet(
  group: string,
  zone: string,
  namespace: string,
  policy: SuspensionPolicy = strictest([]),
): SuspendableSet {
  const owner = group.slice(group.indexOf(":") + 1);
  return {
    owner,
    namespace,
    name: zone,
    uid: `${owner} ${zone}`,
    resourceVersion: "",
    serviceName: "",
    start: 0,
    replicas: 0,
    isDeleting: false,
    followsLeader: false,
    preparesDownscale: false,
    templates: [],
    deletesWhenScaled: false,
    // If an owner does not give its pods' zones, they go one by one, because they may be of several zones.
    policy: zone === unknownZone && policy.mode === "Zone" ? { ...policy, mode: "Group" } : policy,
  };
}

/**
 * Of what several volume claims say the strictest counts, for all of the group, and what the owner says itself counts besides.
 * What each says of itself counts for itself.
 */
function strictest(pvcs: readonly Pvc[], removalPolicy?: OwnerRemovalPolicy): SuspensionPolicy {
  const fields = pvcs.flatMap(({ owned }) => owned ?? []);
  const modes = fields.flatMap(({ mode }) => (mode.kind === "absent" ? [] : [valueIn(mode) ?? "None"]));
  const waits = fields.flatMap(({ wait }) => (wait.kind === "absent" ? [] : [valueIn(wait)]));
  const own = removalPolicy === undefined ? [] : [removalPolicy];
  const allModes = [...modes, ...own.map(({ mode }) => mode)];
  const allWaits = [...waits, ...own.map(({ waitMs }) => waitMs)];
  const known = allWaits.filter((ms) => ms !== undefined);
  return {
    duration: removalPolicy?.duration ?? { kind: "absent" },
    mode: strictestMode(allModes) ?? "Zone",
    waitMs: known.length < allWaits.length ? undefined : known.length === 0 ? usualWaitMs : Math.max(...known),
    ...(removalPolicy?.mode === "None" ? { frozenBecause: removalPolicy.frozenBecause } : {}),
    isOnHold: false,
    isRetained: false,
    drain: { kind: "absent" },
    malformed: pvcs.flatMap(({ name, owned }) =>
      owned?.selector.kind === "malformed"
        ? [{ key: podSelector.key, message: `of the volume claim ${name}, ${owned.selector.message}` }]
        : [],
    ),
  };
}

/** Why a member may not go: it has two owners, or its zone or its owner's pods are unclear; undefined if all is clear. */
export function whyUnclear({
  set,
  name,
  pvcs,
  foreign = [],
}: Member): { readonly guard: string; readonly message: string } | undefined {
  const [other] = foreign;
  if (other !== undefined) {
    const message = `${name} stays: its volume claim ${other} names another owner, and one pod cannot be of two groups`;
    return { guard: "owner-mixed", message };
  }
  const [zone] = pvcs.flatMap(({ owned }) => owned?.unreadableZone ?? []);
  if (set.owner !== undefined && zone !== undefined)
    return { guard: "zone-malformed", message: `${name} stays: Sluice does not know its zone: ${zone}` };
  const [first] = set.owner === undefined ? [] : set.policy.malformed;
  if (first === undefined) return undefined;
  const message = `${name} stays: Sluice does not know which pods ${set.owner} has: ${first.message}`;
  return { guard: "selector-malformed", message };
}

/** All members of a namespace, of StatefulSets and of owners. A volume claim that a StatefulSet made is its own. */
export function findAll(
  sets: readonly SuspendableSet[],
  pvcs: readonly Pvc[],
  pods: readonly VolumeUser[],
): readonly Member[] {
  const ofOthers = notOf(sets, pvcs);
  const groups = new Set(ofOthers.flatMap((pvc) => groupOfPvc(pvc) ?? []));
  const owned = [...groups].sort().flatMap((group) => findOwned(group, ofOthers, pods));
  return [...findMembers(sets, pvcs, pods), ...owned];
}

/** The volume claims that none of these StatefulSets made. */
export function notOf(sets: readonly SuspendableSet[], pvcs: readonly Pvc[]): readonly Pvc[] {
  return pvcs.filter(({ name }) => sets.every((set) => ordinalOfPvc(set, name) === undefined));
}
