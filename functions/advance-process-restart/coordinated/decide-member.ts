/** A member of a restart of many, and with which files its process starts. Pure. */

import type { KnownClaim } from "../../shared/ledger/claim.ts";
import type { Blocked } from "../../shared/ledger/claim-kinds.ts";
import type { Pod } from "../../shared/workloads/pods.ts";
import type { StatefulSet } from "../../shared/workloads/statefulsets.ts";
import type { ManagerStatus, StatusAnswer } from "../calls.ts";
import type { Answered } from "../database/exchange.ts";
import { type FilesState, hasNone } from "../decide-files.ts";
import { isTrue } from "../decide-step.ts";
import { changedKey, disputedKey, type FilesChange } from "../drift/decide-settings.ts";
import { shownTogether, stemOf, togetherPhases } from "./phases.ts";

/** A pod that stands at the name of a member. */
export interface TogetherMember {
  readonly claim: KnownClaim;
  readonly statefulSet: StatefulSet;
  readonly pod: Pod;
  readonly answer: StatusAnswer;
  /** The files of its StatefulSet; absent where it names none, or they do not matter now. */
  readonly files?: FilesState | undefined;
  /** Whether its node is a member of the database; absent where none is named, or that does not matter now. */
  readonly membership?: Answered<boolean>;
}

/** A member whose process manager has answered for its pod. */
export type AnsweringMember = TogetherMember & { readonly answer: ManagerStatus };

export function isAnswering(member: TogetherMember): member is AnsweringMember {
  return "podUid" in member.answer && member.answer.podUid === member.pod.uid;
}

/** True for a pod that was made anew with other files than those of the restart. */
export function lacksFiles({ claim: { sum }, answer }: AnsweringMember): boolean {
  return hasNone(sum, answer);
}

/** True for another pod than the claim names: it is a member in its place. */
export function isAnew({ claim, pod }: TogetherMember): boolean {
  return claim.uids?.[pod.name] !== pod.uid;
}

export function isTakenOff(member: TogetherMember): boolean {
  return !isAnew(member) && member.pod.restart?.text === undefined;
}

/** After the barrier a phase that was taken off stays away. Before it, the pod or the restart is withdrawn by then. */
export function isShown(member: TogetherMember): boolean {
  const { restart } = member.pod;
  if (isTakenOff(member)) return true;
  return restart?.phase === shownTogether(member.claim.phase) && restart.id === stemOf(member.claim);
}

/** True once the process manager has the call of the claims: it refuses all earlier ones. */
export function isCalled({ claim, answer }: AnsweringMember): boolean {
  return answer.lastEpoch === claim.epoch && answer.restartId === stemOf(claim);
}

/** Pods of one StatefulSet that are not in the restart, and whose processes run. */
export interface Outsiders {
  /** The first one. */
  readonly pod: Pod;
  readonly files?: FilesState | undefined;
}

function changeOf({ files }: Pick<Outsiders, "files">): readonly FilesChange[] {
  return files?.change === undefined ? [] : [files.change];
}

/** What keeps the files of these members from a copy: all of them must agree in what their nodes have in common. */
export function blockedByFilesOf(
  members: readonly TogetherMember[],
  outsiders: readonly Outsiders[] = [],
): Blocked | undefined {
  const found = members.find(({ files }) => files?.kind === "blocked")?.files;
  if (found?.kind === "blocked") return found.blocked;
  const key = disputedKey([...members, ...outsiders].flatMap(changeOf));
  if (key === undefined) return undefined;
  const message = `the expected Secrets of the group have several values of ${key}, and no files are copied before they agree`;
  return { guard: "restart-config-disagrees", message };
}

/** A pod that runs with another setting than its expected files have: the members could not join it. */
export interface ConflictingPod {
  readonly pod: Pod;
  readonly key: string;
}

/** The first such pod. Where a person has decided that its files may come alone, it is none. */
export function conflictingPodIn(outsiders: readonly Outsiders[]): ConflictingPod | undefined {
  const [found] = outsiders.flatMap((one) =>
    changeOf(one).flatMap((change) => {
      const key = change.mode === "rolling" ? undefined : changedKey(change.expected, [change]);
      return key === undefined ? [] : [{ pod: one.pod, key }];
    }),
  );
  return found;
}

/**
 * A process that was never stopped is back only where the restart is withdrawn. A pod that was made anew was not stopped either.
 * Nor was one that ran no process when its claim named it, where the restart has not come to the database yet: no process stops
 * before that. Its node may be no member then, because it has the files of the restart: the budget counts it as down until it is
 * ready.
 */
export function isBack(member: AnsweringMember): boolean {
  const { claim, pod, answer, membership } = member;
  if (answer.state !== "started") return false;
  const before = claim.processes?.[pod.name];
  const isSame = !isAnew(member) && answer.processId === before;
  const isUntouched = isSame || isAnew(member) || (before === "" && claim.hold === undefined);
  if (claim.phase === togetherPhases.withdrawing && isUntouched) return true;
  return !isSame && isTrue(membership);
}

/** The members that the restart still waits for. */
export function notBack<Member extends TogetherMember>(members: readonly Member[]): readonly Member[] {
  return members.filter((one) => !(isAnswering(one) && isBack(one)));
}

/** The files that all members of a StatefulSet have, as the first one reports them. */
export function sumOf({ zone }: KnownClaim, members: readonly TogetherMember[]): string | undefined {
  const found = members.filter(isAnswering).find(({ claim }) => claim.zone === zone);
  return found?.answer.mountedSum;
}

/** True where the processes that run have the new files, because their pods were made anew; or those that ran last did. */
function haveNew(members: readonly TogetherMember[]): boolean {
  const answering = members.filter(isAnswering);
  if (answering.length < members.length) return false;
  const running = answering.filter(({ answer }) => answer.state === "started");
  const isNew = ({ claim, answer }: AnsweringMember) => answer.runningSum === claim.sum;
  return running.length > 0 ? running.every(isNew) : answering.some(isNew);
}

/**
 * The sum that a claim and its calls get with this phase; undefined where no member reports its files. It is fixed when all
 * members have their files. A withdrawn restart names none, so that each process which it has stopped starts with the files that
 * it had: others may still run with these, and one with the new files could not join them. Where those that run have the new
 * ones, all start with what was kept for that. Where a process has none of it, because its pod was made anew, all start with the
 * files of now: it would stay down.
 */
export function sumFor(claim: KnownClaim, members: readonly TogetherMember[], phase: string): string | undefined {
  const isWithdrawn = phase === togetherPhases.withdrawing;
  const isBefore = claim.phase === togetherPhases.withdrawing ? claim.sum === undefined : !haveNew(members);
  if (isWithdrawn && isBefore) return undefined;
  const isDownWithout = (one: AnsweringMember) =>
    one.claim.zone === claim.zone && one.answer.state !== "started" && lacksFiles(one);
  const isFixed = isWithdrawn
    ? !members.filter(isAnswering).some(isDownWithout)
    : claim.phase !== togetherPhases.preparing;
  return (isFixed ? claim.sum : undefined) ?? sumOf(claim, members);
}
