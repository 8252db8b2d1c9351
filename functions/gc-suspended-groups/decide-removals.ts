/** Which of the due members are removed now, each under a claim of the ledger. Pure. */

import { removalClaim } from "../shared/annotations/suspension.ts";
import { type Blocked, refuseClaim } from "../shared/groups/refuse-claim.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import type { OtherClaim } from "../shared/reconcile/act.ts";
import { lastRemovalOf } from "../shared/suspension/looks.ts";
import { blockedRequeueMs } from "../shared/suspension/message-reporter.ts";
import type { VolumesSnapshot } from "../shared/suspension/observe-volumes.ts";
import { chooseTurn, type RemovalTurn } from "../shared/suspension/removal-turn.ts";
import type { Anew } from "../shared/suspension/restart-time.ts";
import { isRemoving, type Member } from "../shared/volumes/members.ts";
import type { Pvc } from "../shared/volumes/pvc.ts";
import type { RemovalBlocked } from "./holding.ts";

export interface RemovalSnapshot extends VolumesSnapshot {
  /** False: our finalizer goes, and no volume is removed. */
  readonly removes: boolean;
}

export type RemovalTarget =
  /** Its pod is wanted or there, or a volume is in use, or it must not go after all: its time begins anew. */
  | { readonly kind: "restamp"; readonly member: Member; readonly anew: Anew }
  /** The point of no return, and what comes after it, under a claim of the ledger. */
  | { readonly kind: "remove"; readonly member: Member; readonly claim: OtherClaim }
  /** Our finalizer goes from volume claims that are being deleted; or from all, where nothing is to be held any more. */
  | {
      readonly kind: "release";
      readonly member: Member;
      readonly pvcs: readonly Pvc[];
      /** Those of them whose PersistentVolume is kept first. */
      readonly kept: readonly Pvc[];
    }
  /** The mark is taken back, and with it the claim of the ledger, for which others wait. */
  | {
      readonly kind: "stand-back";
      readonly member: Member;
      readonly pvcs: readonly Pvc[];
      readonly guard: string;
      readonly message: string;
    }
  | { readonly kind: "tell"; readonly member: Member; readonly guard: string; readonly message: string };

/** The members that go now, each under a claim of its own; the others are added to `blocked`. */
export function chooseRemovals(
  snapshot: RemovalSnapshot,
  due: readonly Member[],
  blocked: Map<Member, RemovalBlocked>,
): RemovalTarget[] {
  // A removal that was begun is ended first, and needs no turn, because the point of no return is behind it.
  const begun = due.filter(isRemoving);
  const targets = begun.map((member) => removalOf(snapshot, member));
  const waiting = due.filter((member) => !isRemoving(member));
  const turn = turnOf(snapshot, begun, waiting);
  if (turn === undefined) return targets;
  const going = turn.kind === "now" ? turn.members : [];
  for (const member of waiting) {
    if (going.includes(member)) continue;
    const behind = { guard: "zone-busy", message: `the volumes of ${member.name} wait for their turn` };
    const { guard, message, requeueAfterMs = blockedRequeueMs }: RemovalBlocked = turn.kind === "wait" ? turn : behind;
    blocked.set(member, { guard, message, requeueAfterMs });
  }
  for (const member of going) {
    const removal = removalOf(snapshot, member);
    const why = whyUnclaimed(snapshot, removal);
    if (why === undefined) targets.push(removal);
    else blocked.set(member, { guard: why.guard, message: `the volumes of ${member.name} wait: ${why.message}` });
  }
  return targets;
}

/** The members whose turn it is; undefined if none may go. */
function turnOf(
  snapshot: RemovalSnapshot,
  begun: readonly Member[],
  waiting: readonly Member[],
): RemovalTurn | undefined {
  const { claims, times } = snapshot;
  // A member that is already claimed goes first, and its own claim does not count as an earlier removal.
  const claimed = waiting.filter((member) => standing(claims, member) !== undefined);
  const next = claimed.length > 0 ? claimed : waiting;
  if (next.length === 0) return undefined;
  const lastMs = lastRemovalOf(times, snapshot, claimed.length > 0 ? [] : waiting);
  return chooseTurn(next, lastMs, claims[0]?.zone ?? begun[0]?.set.name, snapshot);
}

function removalOf({ claims, nowMs }: RemovalSnapshot, member: Member): Extract<RemovalTarget, { kind: "remove" }> {
  return { kind: "remove", member, claim: claimOf(member, standing(claims, member), nowMs) };
}

/**
 * Why its claim may not be made. An existing one is already Sluice's. Members of one turn share a zone, so that none blocks
 * another.
 */
function whyUnclaimed(
  snapshot: RemovalSnapshot,
  { member, claim }: Extract<RemovalTarget, { kind: "remove" }>,
): Blocked | undefined {
  if (standing(snapshot.claims, member)) return undefined;
  return refuseClaim(snapshot, { ...claim, by: "", stampMs: snapshot.nowMs }, Number.POSITIVE_INFINITY);
}

function standing(claims: readonly KnownClaim[], { set, ordinal }: Member): KnownClaim | undefined {
  return claims.find(({ zone, members }) => zone === set.name && members[0]?.first === ordinal);
}

/** Rule R10a: it rests on the mark that the first of its volume claims gets. */
function claimOf({ set, ordinal, pvcs }: Member, known: KnownClaim | undefined, nowMs: number): OtherClaim {
  const anchored = pvcs[0] as Pvc;
  return {
    id: known?.id ?? `volume ${set.name} ${ordinal} ${nowMs}`,
    kind: "volume",
    zone: set.name,
    members: [{ first: ordinal, last: ordinal }],
    uids: { ...known?.uids, ...Object.fromEntries(pvcs.map(({ name, uid }) => [name, uid])) },
    phase: "removing",
    terms: "asked",
    anchor: { resource: "persistentvolumeclaims", name: anchored.name, annotation: removalClaim.key },
  };
}
