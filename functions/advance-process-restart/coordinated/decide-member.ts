/** A member of a restart of many, and with which files its process starts. Pure. */

import type { KnownClaim } from "../../shared/ledger/claim.ts";
import type { Pod } from "../../shared/workloads/pods.ts";
import type { StatefulSet } from "../../shared/workloads/statefulsets.ts";
import type { ManagerStatus, StatusAnswer } from "../calls.ts";
import type { Answered } from "../database/exchange.ts";
import type { FilesState } from "../decide-files.ts";
import { togetherPhases } from "./phases.ts";

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
export function lacksFiles({ claim: { sum }, answer: { mountedSum, triedSum, runningSum } }: AnsweringMember): boolean {
  return sum !== undefined && ![mountedSum, triedSum, runningSum].includes(sum);
}

/** The files that all members of a StatefulSet have, as the first one reports them. */
export function sumOf({ zone }: KnownClaim, members: readonly TogetherMember[]): string | undefined {
  const found = members.filter(isAnswering).find(({ claim }) => claim.zone === zone);
  return found?.answer.mountedSum;
}

/**
 * The sum that a claim and its calls get with this phase; undefined where no member reports its files. It is fixed when all
 * members have their files. A withdrawn restart starts what it has stopped with the files that were kept for that. Where one
 * process that is down has none of them, because its pod was made anew, all start with the files of now: it would stay down.
 */
export function sumFor(claim: KnownClaim, members: readonly TogetherMember[], phase: string): string | undefined {
  const isDownWithout = (one: AnsweringMember) =>
    one.claim.zone === claim.zone && one.answer.state !== "started" && lacksFiles(one);
  const isFixed =
    phase === togetherPhases.withdrawing
      ? !members.filter(isAnswering).some(isDownWithout)
      : claim.phase !== togetherPhases.preparing;
  return (isFixed ? claim.sum : undefined) ?? sumOf(claim, members);
}
