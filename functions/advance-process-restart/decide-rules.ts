/** The rules that the restart of a process in its turn waits for, by name, and in this order. Pure. */

import type { DatabaseRule } from "../shared/annotations/restart.ts";
import { governing, type Surroundings } from "../shared/groups/governing.ts";
import { blockedByBudget, limitOf, ownLimitOf, type ZonesNow } from "../shared/groups/pod-limit.ts";
import { type LedgerSurroundings, refuseClaim } from "../shared/groups/refuse-claim.ts";
import type { Zone } from "../shared/groups/zones.ts";
import { blockedByQuestion, type Questions } from "../shared/health/permit.ts";
import type { Blocked } from "../shared/ledger/claim-kinds.ts";
import { isAvailable, type Pod } from "../shared/workloads/pods.ts";
import type { GroupKey, StatefulSet, ZoneWorkload } from "../shared/workloads/statefulsets.ts";
import type { NewClaim } from "./claims.ts";

/** A node that is a member of the database. */
export interface MemberNode {
  /** As copies of shards name it. */
  readonly name: string;
  /** Undefined for a node that is no pod of the group. */
  readonly pod: string | undefined;
  /** As the product names them; `master` and `cluster_manager` mean the same. */
  readonly roles: readonly string[];
}

/** One copy of a shard. */
export interface ShardCopy {
  /** Index and number: the copies of one shard have the same. */
  readonly shard: string;
  readonly isPrimary: boolean;
  /** Such as `STARTED`. */
  readonly state: string;
  /** The name of the node that has it; undefined where it is not assigned. */
  readonly node: string | undefined;
}

/** What a database reports of itself at one moment. */
export interface DatabaseFacts {
  readonly health: "green" | "yellow" | "red";
  /** True where tasks of the cluster were still waiting. */
  readonly isBusy: boolean;
  readonly relocating: number;
  readonly initializing: number;
  /** Shards whose node has left, and that wait for it. */
  readonly delayed: number;
  /** Reads of shards that are under way. */
  readonly inFlight: number;
  /** The setting of shard allocation; `all` by default. */
  readonly allocation: string;
  readonly nodes: readonly MemberNode[];
  readonly copies: readonly ShardCopy[];
}

/** None is named; or it gives no answer, or another one than expected; or these facts. */
export type DatabaseAnswer =
  | { readonly kind: "none" }
  | { readonly kind: "unknown"; readonly why: string }
  | { readonly kind: "known"; readonly facts: DatabaseFacts };

/** A group as it is now: everything but the pod on which the rules rest. */
export interface RuleGroup extends LedgerSurroundings<StatefulSet>, ZonesNow {
  readonly key: GroupKey;
  readonly surroundings: Surroundings<ZoneWorkload>;
  /** What asked pods have said; absent where no StatefulSet of the group asks. */
  readonly questions?: Questions | undefined;
  readonly database: DatabaseAnswer;
}

export interface RuleView {
  readonly group: RuleGroup;
  readonly zone: Zone;
  readonly pod: Pod;
  readonly claim: NewClaim;
}

type Refuse = (view: RuleView) => Blocked | undefined;

/** The rules that no annotation switches off. */
const ofPod: readonly Refuse[] = [({ pod }) => refuseTerminating(pod), refuseByLedger, refuseByRollout];

type FactsView = Pick<RuleView, "group" | "zone" | "pod"> & { readonly facts: DatabaseFacts };

/** What each rule about the database objects to; undefined where it is kept. */
const ofDatabase: Readonly<Record<DatabaseRule, (view: FactsView) => string | undefined>> = {
  "database-settled": whyUnsettled,
  "started-copy": whyLastCopy,
  "masters-whole": whyMasterMissing,
  "role-elsewhere": whyLastOfRole,
};

/** The first rule that is not kept, by its guard and its message; undefined where the process may restart. */
export function refuseByRules(view: RuleView): Blocked | undefined {
  for (const refuse of ofPod) {
    const blocked = refuse(view);
    if (blocked !== undefined) return blocked;
  }
  return refuseByDatabase(view);
}

export function refuseTerminating({ name, terminating }: Pod): Blocked | undefined {
  if (!terminating) return undefined;
  return { guard: "pod-terminating", message: `${name} is on its way out, and the next pod starts anew` };
}

/** A pod that is down already takes nothing more: neither the budget nor other pods matter. */
export function isDown({ group, zone, pod }: Pick<RuleView, "group" | "zone" | "pod">): boolean {
  return !isAvailable(pod, zone.workload.minReadySeconds, group.nowMs);
}

/** Rules R17, R18 and R22: the budget, the other zones, and the pod's own answer about the health of the others. */
function refuseByLedger(view: RuleView): Blocked | undefined {
  if (isDown(view)) return undefined;
  const { group, zone, pod, claim } = view;
  const governed = governing(pod, group.surroundings, group.key);
  const limit = limitOf(zone, governed, ownLimitOf(zone));
  return (
    refuseClaim(group, { ...claim, by: "", stampMs: group.nowMs }, limit.pods) ??
    blockedByBudget(group, zone, pod, governed, []) ??
    blockedByQuestion(group.questions, group.zones, zone, pod)
  );
}

/** What is in the template is a rollout's work, and a new pod is a new process. */
function refuseByRollout({ zone: { workload }, pod }: Pick<RuleView, "zone" | "pod">): Blocked | undefined {
  const { name, paused, updateRevision } = workload;
  if (paused || (updateRevision !== undefined && pod.revision === updateRevision)) return undefined;
  const why =
    updateRevision === undefined
      ? `the StatefulSet controller has not caught up with the spec of ${name}, so that a rollout may be due`
      : `a rollout is to replace it with the wanted revision of ${name}, which starts it anew as well; pause ${name} to restart it before`;
  return { guard: "rollout-due", message: `${pod.name} waits: ${why}` };
}

/**
 * Which of the pods that restart in their turn may be next: the first one. While that is down and waits for its rollout, others
 * that are down may go as well, because the rollout may wait for one of these.
 */
export function mayBeNext<T extends Pick<RuleView, "zone" | "pod">>(
  group: RuleGroup,
  [next, ...later]: readonly T[],
): readonly T[] {
  if (next === undefined) return [];
  return waitsForRollout(group, next)
    ? [next, ...later.filter(({ zone, pod }) => isDown({ group, zone, pod }))]
    : [next];
}

/** True for a pod that is down and waits for its rollout, so that others that are down may go before it. */
export function waitsForRollout(group: RuleGroup, { zone, pod }: Pick<RuleView, "zone" | "pod">): boolean {
  return isDown({ group, zone, pod }) && refuseByRollout({ zone, pod }) !== undefined;
}

/** A pod that is not available needs none of these rules: a mended file must reach it. */
function refuseByDatabase({ group, zone, pod }: RuleView): Blocked | undefined {
  const { database } = group;
  const unchecked = zone.workload.restart?.unchecked;
  const checked = Object.entries(ofDatabase).filter(([name]) => !unchecked?.has(name as DatabaseRule));
  if (database.kind === "none" || checked.length === 0 || isDown({ group, zone, pod })) return undefined;
  if (database.kind === "unknown")
    return { guard: "database-unknown", message: `${pod.name} waits until the database answers: ${database.why}` };
  for (const [guard, refuse] of checked) {
    const why = refuse({ group, zone, pod, facts: database.facts });
    if (why !== undefined) return { guard, message: `${pod.name} waits: ${why}` };
  }
  return undefined;
}

/** A yellow database that does not move stays yellow for ever, so that it is no reason to wait. */
function whyUnsettled({ group, facts }: FactsView): string | undefined {
  const { health, isBusy, relocating, initializing, delayed, inFlight, allocation, nodes } = facts;
  if (health === "green") return undefined;
  if (health === "red") return "the database is red";
  const wanted = wantedPods(group);
  const reasons = [
    isBusy ? "tasks of its cluster wait" : false,
    relocating > 0 && `${relocating} shards relocate`,
    initializing > 0 && `${initializing} shards initialise`,
    delayed > 0 && `${delayed} shards wait for a node that has left`,
    inFlight > 0 && `${inFlight} reads of shards are under way`,
    allocation !== "all" && `shard allocation is ${allocation}`,
    nodes.length < wanted && `${nodes.length} nodes are members, and ${wanted} pods are wanted`,
  ];
  const why = reasons.find((one) => one !== false);
  return why && `the database is yellow, and ${why}`;
}

function wantedPods({ zones }: Pick<RuleGroup, "zones">): number {
  return zones.reduce((sum, { workload }) => sum + workload.replicas, 0);
}

/** A copy that relocates is whole until it has moved. */
const wholeStates: ReadonlySet<string> = new Set(["STARTED", "RELOCATING"]);

/** A shard without replicas is accepted, because its outage is its user's choice. */
function whyLastCopy({ group, pod, facts }: FactsView): string | undefined {
  if (facts.health === "green" || wantedPods(group) === 1) return undefined;
  const own = nodeOf(facts, pod)?.name;
  const primaries = facts.copies.filter(({ isPrimary, node }) => isPrimary && node === own && own !== undefined);
  const lost = primaries.find(({ shard }) => {
    const others = facts.copies.filter((copy) => copy.shard === shard && !copy.isPrimary);
    const isWhole = ({ node, state }: ShardCopy) => node !== undefined && node !== own && wholeStates.has(state);
    return others.length > 0 && !others.some(isWhole);
  });
  return lost && `it has the last whole copy of the shard ${lost.shard}`;
}

function nodeOf({ nodes }: DatabaseFacts, pod: Pick<Pod, "name">): MemberNode | undefined {
  return nodes.find((node) => node.pod === pod.name);
}

const masterRoles: ReadonlySet<string> = new Set(["master", "cluster_manager"]);

function isEligible({ roles }: MemberNode): boolean {
  return roles.some((role) => masterRoles.has(role));
}

/**
 * True for a pod whose node is eligible as master. Pods of one StatefulSet have the same roles, so that another one of it shows
 * those of a node that is no member. Of a StatefulSet without members nothing is known, so that its pods count as eligible.
 */
export function isMasterEligible({ zone, pod, facts }: Pick<FactsView, "zone" | "pod" | "facts">): boolean {
  const node = nodeOf(facts, pod);
  return node === undefined ? hasEligible(zone, facts) : isEligible(node);
}

function hasEligible(zone: Pick<Zone, "pods">, facts: DatabaseFacts): boolean {
  const members = membersOf(zone, facts);
  return members.length === 0 || members.some(isEligible);
}

function membersOf({ pods }: Pick<Zone, "pods">, { nodes }: DatabaseFacts): readonly MemberNode[] {
  const names = new Set<string | undefined>(pods.map(({ name }) => name));
  return nodes.filter(({ pod }) => names.has(pod));
}

function whyMasterMissing(view: FactsView): string | undefined {
  if (!isMasterEligible(view)) return undefined;
  const missing = view.group.zones.find(
    (zone) => hasEligible(zone, view.facts) && membersOf(zone, view.facts).length < zone.workload.replicas,
  );
  if (missing === undefined) return undefined;
  const { name, replicas } = missing.workload;
  const count = membersOf(missing, view.facts).length;
  return `it is eligible as master, and of ${replicas} such pods of ${name} ${count} are members of the database`;
}

function whyLastOfRole({ group, pod, facts }: FactsView): string | undefined {
  const own = nodeOf(facts, pod);
  if (own === undefined) return undefined;
  const down = group.zones.flatMap((zone) => zone.pods.filter((one) => isDown({ group, zone, pod: one })));
  const isUp = (node: MemberNode) => !down.some(({ name }) => name === node.pod);
  const last = own.roles.find((role) => {
    const others = facts.nodes.filter((node) => node !== own && node.roles.includes(role));
    return !masterRoles.has(role) && others.length > 0 && !others.some(isUp);
  });
  return last && `no other node with the role ${last} is available`;
}
