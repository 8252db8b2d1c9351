/** What is done about the members of a group whose volumes are to be suspended, or are wanted back. Pure. */
import { type Around, refuseClaim } from "../shared/group/claiming.ts";
import { scaleDownPhases } from "../shared/group/size-changes.ts";
import { isBegun, isRequested, type Member } from "../shared/group/suspension/members.ts";
import { isOwnerGroup } from "../shared/group/suspension/owned.ts";
import { chooseTurn } from "../shared/group/suspension/pace.ts";
import { isPodNews } from "../shared/group/suspension/proof.ts";
import type { Claim, KnownClaim } from "../shared/ledger/claim.ts";
import { describeClaim, guardOfClaim, type HeldBack, heldBy } from "../shared/ledger/kinds.ts";
import { podNameOf } from "../shared/objects/pods.ts";
import type { SuspendableSet } from "../shared/objects/volumes/suspendable.ts";
import type { OtherClaim } from "../shared/pass/act.ts";
import { take, type Verdict, type Wait, wait } from "../shared/pass/verdict.ts";
import { type Judged, judge, podRecheckMs, type Step } from "./judge.ts";

export interface SuspendSnapshot extends Around {
  readonly group: string;
  readonly nowMs: number;
  /** All of the group that have volume claims. */
  readonly members: readonly Member[];
  /** What this function has claimed and not ended. */
  readonly claims: readonly KnownClaim[];
  /** Why the API server would not have another size of late, or pods deleted, by the uid of the zone. */
  readonly refused: ReadonlyMap<string, string>;
  /** False: no volume claim gets our finalizer. */
  readonly protects: boolean;
  readonly isNamespaceEnding: boolean;
}

/** Another size, with the members that go; none where one comes back. */
export interface Resizing {
  readonly kind: "resize";
  readonly set: SuspendableSet;
  readonly target: number;
  readonly leaving: readonly Member[];
  /** Written before pods leave; undefined where none does, or where the webhook of its own size claims them. */
  readonly claim: OtherClaim | undefined;
}

/** Pods of one zone of an owner that is no StatefulSet: they are deleted, and it is for the owner not to make them anew. */
export interface LettingGo {
  readonly kind: "let-go";
  readonly set: SuspendableSet;
  readonly leaving: readonly Member[];
  readonly claim: OtherClaim;
}

/** What a volume claim is to say that it waits for. */
export interface Told {
  readonly kind: "tell";
  readonly member: Member;
  readonly guard: string;
  readonly sentence: string;
}

export type Target = Step | Resizing | LettingGo | Told;

interface JudgedMember {
  readonly member: Member;
  readonly judged: Judged;
}

const heldRecheckMs = 15_000;

export function decide(snapshot: SuspendSnapshot): Verdict<Target> {
  const { members, nowMs, protects, group, isNamespaceEnding } = snapshot;
  const judgedAll = isNamespaceEnding
    ? []
    : members.flatMap((member): JudgedMember[] => {
        const judged = afterLeaving(snapshot, member, judge(member, nowMs, protects));
        return judged === undefined ? [] : [{ member, judged }];
      });
  const steps = judgedAll.flatMap(({ judged }): Target[] => (judged.step === undefined ? [] : [judged.step]));
  const returning = judgedAll.filter(({ judged }) => judged.wish === "returns").map(({ member }) => member);
  const going = judgedAll.filter(({ judged }) => judged.wish === "goes").map(({ member }) => member);
  const raised = raise(snapshot, returning);
  const lowered =
    going.length === 0 ? undefined : isOwnerGroup(group) ? letGo(snapshot, going) : lower(snapshot, going);
  const waits = new Map<Member, Pick<Judged, "guard" | "sentence">>([
    ...raised.waits,
    ...(lowered?.held === undefined ? [] : going.map((member) => [member, lowered.held as Judged] as const)),
  ]);
  // One write at a time: what goes is told so by the write that marks it.
  const leaving = new Set(lowered?.targets.flatMap((target) => target.leaving));
  const told = judgedAll.flatMap(({ member, judged }) =>
    leaving.has(member) ? [] : tell(member, waits.get(member) ?? judged),
  );
  const targets = [...steps, ...raised.targets, ...(lowered?.targets ?? []), ...told];
  return conclude(judgedAll, targets, waits, group);
}

/**
 * Rule R21: as long as the ledger has a scale-down of a member, whoever made it may still carry it out: its pod goes
 * though it is ready. It is told to have its volume back only when that has ended.
 */
function afterLeaving({ zones }: SuspendSnapshot, member: Member, judged: Judged | undefined) {
  if (judged?.step?.kind !== "clear") return judged;
  const claims = zones.find(({ statefulSet }) => statefulSet.uid === member.set.uid)?.claims ?? [];
  const claim = leavingClaimOf(claims, member);
  if (claim === undefined) return judged;
  const sentence = `${member.name} may still be on its way out: ${describeClaim(claim)}`;
  return { guard: "pod-leaving", sentence, recheckMs: podRecheckMs } satisfies Judged;
}

/** The scale-down by which a member may still go, among the claims of its group or of its zone. */
export function leavingClaimOf(claims: readonly Claim[], { set, ordinal }: Member): Claim | undefined {
  return claims.find(
    (one) =>
      one.isKnown &&
      one.kind === "scale-down" &&
      one.zone === set.name &&
      one.members.some(({ first, last }) => first <= ordinal && ordinal <= last),
  );
}

/** What is done, or what the first of those waits for that wait. */
function conclude(
  all: readonly JudgedMember[],
  targets: readonly Target[],
  waits: ReadonlyMap<Member, Pick<Judged, "guard" | "sentence">>,
  group: string,
): Verdict<Target> {
  const rechecks = all.flatMap(({ judged }) => judged.recheckMs ?? (judged.wish === undefined ? [] : [podRecheckMs]));
  const recheckMs = rechecks.length === 0 ? undefined : Math.min(...rechecks);
  const doing = targets.filter(({ kind }) => kind !== "tell");
  const [first] = all;
  if (doing.length > 0) {
    const said = all.filter(({ member, judged }) => judged.step !== undefined || !waits.has(member));
    const named = said[0] ?? first;
    return take(targets, named?.judged.sentence ?? "", { zone: named?.member.set.name ?? "", recheckMs: podRecheckMs });
  }
  const waiting = all.find(({ judged, member }) => judged.step === undefined || waits.has(member)) ?? first;
  if (waiting === undefined) return take(targets, `nothing of ${group} is to be suspended or to come back`);
  const { guard, sentence } = waits.get(waiting.member) ?? waiting.judged;
  const where = { zone: waiting.member.set.name, recheckMs: recheckMs ?? heldRecheckMs };
  // The words on volume claims are written beside the wait, which they repeat.
  return targets.length > 0 ? take(targets, `${guard}: ${sentence}`, where) : wait(guard, sentence, where);
}

/** A volume claim says what it waits for; it is written where another guard holds now. */
function tell(member: Member, { guard, sentence, step }: Pick<Judged, "guard" | "sentence" | "step">): Told[] {
  if (step !== undefined || !(isBegun(member) || isRequested(member))) return [];
  const isNews = member.claims.some(
    (claim) => !claim.isTerminating && (claim.message?.guard !== guard || isPodNews(member.pod?.createdMs, claim)),
  );
  return isNews ? [{ kind: "tell", member, guard, sentence }] : [];
}

interface Raised {
  readonly targets: readonly Resizing[];
  readonly waits: readonly (readonly [Member, Pick<Judged, "guard" | "sentence">])[];
}

/** One ordinal at a time comes back, the lowest first: that is how a StatefulSet grows. */
function raise({ members, zones, refused }: SuspendSnapshot, returning: readonly Member[]): Raised {
  const waits: (readonly [Member, Pick<Judged, "guard" | "sentence">])[] = [];
  const targets = new Map<string, Resizing>();
  for (const member of returning) {
    const { set, name, ordinal } = member;
    const hold = (held: HeldBack) => waits.push([member, held]);
    const next = set.start + set.replicas;
    const below = members.find(
      (one) =>
        one.set === set && one.ordinal >= next && one.ordinal < ordinal && isBegun(one) && !returning.includes(one),
    );
    // Whoever is about to remove a volume of it has lost: its mark would be written under a revision of before the wish.
    const claim = zones.find(({ statefulSet }) => statefulSet.uid === set.uid)?.claims.find(isNoVolume);
    const refusal = refused.get(set.uid);
    if (set.isDeleting)
      hold({ guard: "owner-deleting", sentence: `${name} cannot come back: ${set.name} is being deleted` });
    else if (ordinal < set.start) hold(belowStart(member));
    else if (set.isLed) {
      const sentence = `${name} is to come back, and another object says the size of ${set.name}: raise that one`;
      hold({ guard: "size-led", sentence });
    } else if (below !== undefined) {
      const sentence = `${name} is to come back, and ${below.name} comes before it: recover that one, too`;
      hold({ guard: "recover-lower-first", sentence });
    } else if (claim !== undefined) {
      const { guard, sentence } = heldBy(claim);
      hold({ guard, sentence: `${name} is to come back, and waits: ${sentence}` });
    } else if (refusal !== undefined) hold({ guard: "size-refused", sentence: refusal });
    else if (!targets.has(set.uid))
      targets.set(set.uid, { kind: "resize", set, target: set.replicas + 1, leaving: [], claim: undefined });
  }
  return { targets: [...targets.values()], waits };
}

/** More replicas would only add pods at the other end: without end, because this one never comes. */
function belowStart({ name, ordinal, set }: Member): HeldBack {
  const sentence = `${name} is to come back, and spec.ordinals.start of ${set.name} is ${set.start}: set it to ${ordinal} or less, and spec.replicas so that no other pod leaves`;
  return { guard: "below-start", sentence };
}

const isNoVolume = ({ isKnown, kind }: Claim): boolean => !isKnown || kind !== "volume";

interface Lowered {
  readonly targets: readonly (Resizing | LettingGo)[];
  /** Why none goes; absent where one does. */
  readonly held?: Pick<Judged, "guard" | "sentence">;
}

/** One zone is made smaller, by those of its highest ordinals that are to go. */
function lower(snapshot: SuspendSnapshot, going: readonly Member[]): Lowered {
  const [own] = snapshot.claims;
  if (own !== undefined)
    return held(wait(guardOfClaim(own), `${describeClaim(own)}; no other zone is made smaller until that has ended`));
  const due = going.filter(
    (member) => whyNotTop(member, going) === undefined && whySizeStays(snapshot, member) === undefined,
  );
  const [first] = going;
  if (due.length === 0 && first !== undefined)
    return held(
      whySizeStays(snapshot, first) ?? whyNotTop(first, going) ?? wait("suspending", `${first.name} is to go`),
    );
  const turn = chooseTurn(due, snapshot.members, undefined, snapshot.nowMs);
  if (turn.kind === "wait") return held(turn);
  // Of one at a time it is the highest of its zone.
  const [chosen] = turn.members;
  const ofZone = due.filter(({ set }) => set === chosen?.set).sort((one, other) => other.ordinal - one.ordinal);
  return claimFor(snapshot, ofZone.slice(0, turn.members.length));
}

/** Pods of one zone of an owner: nobody has to go before another. */
function letGo(snapshot: SuspendSnapshot, going: readonly Member[]): Lowered {
  const [own] = snapshot.claims;
  if (own !== undefined)
    return held(wait(guardOfClaim(own), `${describeClaim(own)}; no other pod is let go until that has ended`));
  const turn = chooseTurn(going, snapshot.members, undefined, snapshot.nowMs);
  if (turn.kind === "wait") return held(turn);
  const leaving = turn.members;
  const [first] = leaving;
  if (first === undefined) return held(wait("suspending", "nothing is to go"));
  const refusal = snapshot.refused.get(first.set.uid);
  if (refusal !== undefined) return held(wait("delete-refused", refusal));
  const claim: OtherClaim = {
    id: `suspension ${first.set.name} ${snapshot.nowMs}`,
    kind: "scale-down",
    zone: first.set.name,
    members: leaving
      .map(({ ordinal }) => ({ first: ordinal, last: ordinal }))
      .sort((one, other) => one.first - other.first),
    uids: Object.fromEntries(leaving.flatMap(({ pod }) => (pod === undefined ? [] : [[pod.name, pod.uid]]))),
    phase: scaleDownPhases.confirmed,
    terms: "asked",
  };
  const why = refuseClaim(snapshot, { ...claim, by: "", stampMs: snapshot.nowMs }, Number.POSITIVE_INFINITY);
  if (why !== undefined) return held(wait(why.guard, `${first.name} is to go, and waits: ${why.sentence}`));
  return { targets: [{ kind: "let-go", set: first.set, leaving, claim }] };
}

function held({ guard, sentence }: Pick<Wait, "guard" | "sentence">): Lowered {
  return { targets: [], held: { guard, sentence } };
}

/** Only the highest ordinals can go: a StatefulSet has no holes. */
function whyNotTop({ set, ordinal, name }: Member, going: readonly Member[]): Wait | undefined {
  for (let above = set.start + set.replicas - 1; above > ordinal; above--) {
    if (going.some((one) => one.set === set && one.ordinal === above)) continue;
    const sentence = `${name} stays: ${podNameOf({ statefulSet: set.name, ordinal: above })} is above it, and is not to go; a StatefulSet gives up its highest ordinals only`;
    return wait("not-top-ordinal", sentence);
  }
  return undefined;
}

function whySizeStays({ refused }: SuspendSnapshot, { set, name }: Member): Wait | undefined {
  if (set.isLed)
    return wait("size-led", `${name} stays: another object says the size of ${set.name}, and would have the pod back`);
  const refusal = refused.get(set.uid);
  return refusal === undefined ? undefined : wait("size-refused", refusal);
}

function claimFor(snapshot: SuspendSnapshot, leaving: readonly Member[]): Lowered {
  const [top] = leaving;
  const lowest = leaving.at(-1);
  if (top === undefined || lowest === undefined) return held(wait("suspending", "nothing is to go"));
  const { set } = top;
  const target = lowest.ordinal - set.start;
  const claim: OtherClaim = {
    id: `suspension ${set.name} ${snapshot.nowMs}`,
    kind: "scale-down",
    zone: set.name,
    members: [{ first: lowest.ordinal, last: set.start + set.replicas - 1 }],
    uids: {
      [set.name]: set.uid,
      ...Object.fromEntries(leaving.flatMap(({ pod }) => (pod === undefined ? [] : [[pod.name, pod.uid]]))),
    },
    phase: scaleDownPhases.confirmed,
    terms: "asked",
  };
  // Max-unavailable is for pods that come back, and says nothing of how many may leave.
  const why = refuseClaim(snapshot, { ...claim, by: "", stampMs: snapshot.nowMs }, Number.POSITIVE_INFINITY);
  if (why !== undefined) return held(wait(why.guard, `${top.name} is to go, and waits: ${why.sentence}`));
  // The webhook that is asked about the change makes the claim, and tells the pods.
  return { targets: [{ kind: "resize", set, target, leaving, claim: set.preparesDownscale ? undefined : claim }] };
}
