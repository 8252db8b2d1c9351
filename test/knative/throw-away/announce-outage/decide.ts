/** Which outages of a StatefulSet's pods are still to be announced. Pure. */

import { take, type Verdict, wait } from "../../../../functions/shared/contract/verdict.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";

/** A ConfigMap that says that a pod of its owner is lost with its node. */
export interface Outage {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly ordinal: number;
  readonly node: string;
  readonly isNodeGone: boolean;
  /** Approval that the outage waits for; undefined if it needs none. */
  readonly approval: Approval | undefined;
  /** The uid of the pod that stands at the ordinal; undefined where none does. */
  readonly podUid: string | undefined;
  /** The ledger holds its claim, and the ConfigMap names that. */
  readonly isAnnounced: boolean;
}

/** An object of a kind that a user names: by wanting a replica, it approves. */
export interface Approval {
  /** As the ConfigMap names it. */
  readonly by: string;
  readonly isGiven: boolean;
}

export interface OutageSnapshot {
  /** Undefined where it has left the group since. */
  readonly statefulSet: StatefulSet | undefined;
  readonly outages: readonly Outage[];
}

export interface Target {
  readonly statefulSet: StatefulSet;
  readonly outage: Outage;
}

/** No function chooses an outage, so that no budget holds it back: each is announced at once. */
export function decide({ statefulSet, outages }: OutageSnapshot): Verdict<Target> {
  if (statefulSet === undefined) return wait("outage-without-owner", "its StatefulSet has left the group", {});
  const zone = statefulSet.name;
  const due = outages.filter(({ isAnnounced, isNodeGone }) => isNodeGone && !isAnnounced);
  const news = due.filter(({ approval }) => approval?.isGiven ?? true);
  const blocked = due.find(({ approval }) => approval?.isGiven === false);
  const early = outages.find(({ isAnnounced, isNodeGone }) => !isNodeGone && !isAnnounced);
  if (news.length === 0 && early !== undefined) {
    return wait("node-present", `${early.name} says that node ${early.node} is lost, and it is there`, { zone });
  }
  if (news.length === 0 && blocked !== undefined) {
    return wait("not-approved", `${blocked.approval?.by} has not approved ${blocked.name}`, { zone });
  }
  const targets = news.map((outage): Target => ({ statefulSet, outage }));
  return take(targets, `${news.length} of ${outages.length} outages of ${zone} are announced now`, { zone });
}
