/** Counts the pods of an owner that is no StatefulSet, zone by zone, as those of a StatefulSet. Pure. */
import type { PodObject } from "../kubernetes/cluster.ts";
import { groupOfOwner } from "../workloads/group-key.ts";
import { type Pod, parsePod } from "../workloads/pods.ts";
import type { OwnedZone } from "../workloads/statefulsets.ts";
import { isBegun, isRecovering, isRequested, type Member, parseVolumeUser, type VolumeUser } from "./members.ts";
import { findOwned, groupOfPvc, unknownZone, zoneAsSet } from "./owners.ts";
import { labelled, type Pvc, valueIn } from "./pvc.ts";
import type { SuspendableSet } from "./suspendable-set.ts";

/** The zones of an owner's group, as those of StatefulSets are surveyed, and the pods of each by its uid. */
export interface OwnedZones {
  readonly zones: readonly OwnedZone[];
  readonly podsOf: ReadonlyMap<string, readonly Pod[]>;
}

/**
 * Every pod of the owner, by its zone. A pod that Sluice has let go is leaving. A pod that is to come back, or that Sluice has
 * not let go, is missing while it is not there.
 */
export function findOwnedZones(
  { namespace, group }: { readonly namespace: string; readonly group: string },
  pvcs: readonly Pvc[],
  objects: readonly PodObject[],
): OwnedZones {
  const users = objects.map(parseVolumeUser);
  const byUid = new Map(objects.map((object) => [object.metadata.uid, object]));
  const members = findOwned(group, pvcs, users);
  const slots = new Map<string, CountedZone>();
  const slotOf = (set: SuspendableSet) => {
    const slot = slots.get(set.uid) ?? { set, expected: [], leaving: [] };
    slots.set(set.uid, slot);
    return slot;
  };
  const counted = new Set<string>();
  for (const member of members) {
    addMember(slotOf(member.set), member, byUid);
    for (const { uid } of [...(member.pod === undefined ? [] : [member.pod]), ...member.others]) counted.add(uid);
  }
  const isOfGroup = belongsTo(group, pvcs);
  const zoneOf = zonesByLabel(group, pvcs);
  for (const user of users) {
    const object = byUid.get(user.uid);
    if (counted.has(user.uid) || object?.status?.phase === "Succeeded" || !isOfGroup(user)) continue;
    slotOf(zoneAsSet(group, zoneOf(user), namespace)).expected.push(object);
  }
  const all = [...slots.values()];
  return {
    zones: all.map(({ set, expected }) => asOwnedZone(set, group, expected.length)),
    podsOf: new Map(
      all.map(({ set, expected, leaving }) => [
        set.uid,
        asPods(set, [...expected.entries(), ...after(expected, leaving)]),
      ]),
    ),
  };
}

/** The pods of a zone during the count. */
interface CountedZone {
  readonly set: SuspendableSet;
  /** Undefined for a pod that is missing. */
  readonly expected: (PodObject | undefined)[];
  readonly leaving: PodObject[];
}

function addMember({ expected, leaving }: CountedZone, member: Member, byUid: ReadonlyMap<string, PodObject>): void {
  const pod = byUid.get(member.pod?.uid ?? "");
  if (isExpected(member)) expected.push(pod);
  else if (pod !== undefined) leaving.push(pod);
  for (const { uid } of member.others) expected.push(byUid.get(uid));
}

/** True if it exists, if Sluice has not let it go, or if a user wants it back or does not ask that it goes. */
function isExpected(member: Member): boolean {
  const stands = member.pod !== undefined && !member.pod.isTerminating;
  return stands || !isBegun(member) || isRecovering(member) || !isRequested(member);
}

/** The pods that the owner controls, and those that the volume claims select. */
function belongsTo(group: string, pvcs: readonly Pvc[]): (user: VolumeUser) => boolean {
  const own = pvcs.filter((pvc) => groupOfPvc(pvc) === group);
  const isSelected = selecting(
    own.flatMap(({ owned }) => (owned === undefined ? [] : (valueIn(owned.selector) ?? []))),
  );
  const isControlled = ({ controller }: VolumeUser) => controller !== undefined && groupOfOwner(controller) === group;
  return (user) => isControlled(user) || isSelected(user.labels);
}

/**
 * Whether labels match any of these selectors. Built once, and used for each pod: each label of a pod is looked up once,
 * however many selectors name it.
 */
function selecting(all: readonly ReadonlyMap<string, string>[]): (labels: VolumeUser["labels"]) => boolean {
  // The claims of a group mostly have the same selectors.
  const selectors = [...new Set(all)];
  const wanting = new Map<string, Map<string, number[]>>();
  for (const [index, selector] of selectors.entries())
    for (const [key, value] of selector) {
      const byValue = wanting.get(key) ?? new Map<string, number[]>();
      wanting.set(key, byValue.set(value, [...(byValue.get(value) ?? []), index]));
    }
  return (labels) => {
    const left = Uint16Array.from(selectors, ({ size }) => size);
    for (const [key, byValue] of wanting)
      for (const index of byValue.get(labels[key] ?? "") ?? []) {
        const count = (left[index] ?? 0) - 1;
        if (count === 0) return true;
        left[index] = count;
      }
    return false;
  };
}

function zonesByLabel(group: string, pvcs: readonly Pvc[]): (user: VolumeUser) => string {
  const own = pvcs.filter((pvc) => groupOfPvc(pvc) === group);
  const keys = [...new Set(own.flatMap(({ owned }) => owned?.zoneLabel ?? []))].sort();
  return ({ labels }) => keys.map((key) => labelled(labels, key)).find((zone) => zone !== undefined) ?? unknownZone;
}

function after(expected: readonly unknown[], leaving: readonly PodObject[]): (readonly [number, PodObject])[] {
  return leaving.map((pod, index) => [expected.length + index, pod] as const);
}

function asPods({ uid }: SuspendableSet, objects: readonly (readonly [number, PodObject | undefined])[]): Pod[] {
  return objects.flatMap(([ordinal, object]) =>
    object === undefined ? [] : [{ ...parsePod(object), ordinal, ownerUid: uid }],
  );
}

function asOwnedZone({ namespace, name, uid }: SuspendableSet, group: string, replicas: number): OwnedZone {
  return {
    kind: "OwnedZone",
    namespace,
    name,
    uid,
    group,
    start: 0,
    replicas,
    minReadySeconds: 0,
    isOrdered: false,
    maxUnavailable: 1,
    updateRevision: undefined,
    question: undefined,
    malformed: [],
  };
}
