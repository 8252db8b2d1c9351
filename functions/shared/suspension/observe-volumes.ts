/** The common observation of the two functions that suspend the volumes of a group and remove them. */

import type { Context } from "../contract/context.ts";
import type { LedgerSurroundings } from "../groups/refuse-claim.ts";
import { claimsBy, type KindName, type KnownClaim } from "../ledger/claim.ts";
import type { GroupObservation } from "../transaction/observe-group.ts";
import type { Member } from "../volumes/members.ts";
import { withDrainAnswers } from "./drain-answers.ts";
import type { SuspensionTimes } from "./looks.ts";
import { withTrueMarks } from "./marks.ts";
import { readMembers, type Suspendables } from "./reading.ts";
import { recentMessages } from "./recent-messages.ts";

/** A group with its suspended volumes, as both decisions read it. */
export interface VolumesSnapshot extends LedgerSurroundings, Suspendables {
  readonly group: string;
  /** What the function has claimed and not ended. */
  readonly claims: readonly KnownClaim[];
  /** What the ledger says of the last removal, and of observations. */
  readonly times: SuspensionTimes;
  /** The uids of volume claims that keep what they say for now. */
  readonly recentMessages: ReadonlySet<string>;
}

/** Which members one of the functions needs to know about. */
export interface VolumesNeed {
  readonly claimKind: KindName;
  /** Whose objects are read once more by GETs; absent: of none. */
  readonly isLive?: (member: Member) => boolean;
  /** About whose data other pods are asked, where its StatefulSet wants that. */
  readonly isAsked: (member: Member, nowMs: number) => boolean;
}

/** Other pods are asked last, so that their answers are newer than the ledger (rule R22). Throws ClusterError, and Conflict. */
export async function observeVolumes(
  context: Context,
  observed: GroupObservation,
  by: string,
  { claimKind, isLive, isAsked }: VolumesNeed,
): Promise<VolumesSnapshot> {
  const { key, ledger, zones, departed, strayClaims } = observed;
  const names = zones.map(({ workload }) => workload.name);
  const read = await readMembers(context, key, names, isLive);
  const marked = await withTrueMarks(context, ledger, read.members);
  return {
    ...read,
    group: key.group,
    zones,
    departed,
    strayClaims,
    members: await withDrainAnswers(context, by, key, marked, (one) => isAsked(one, read.nowMs)),
    claims: claimsBy(observed.ledger.claims, claimKind, by),
    times: ledger,
    recentMessages: recentMessages(context, key),
  };
}
