/**
 * When the time of a suspended volume begins anew, because its pod was observed to be wanted or there, or the volume in use.
 * Both functions ask this before anything else, so that no malformed or missing word keeps the old time running. Pure.
 */

import { isUsed, isWantedMember, type Member } from "../volumes/members.ts";
import { type Pvc, valueIn } from "../volumes/pvc.ts";

/** The members whose time begins again, and why. */
export interface Anew {
  readonly guard: string;
  readonly message: string;
  /** At least one; each of them has a time that runs. */
  readonly pvcs: readonly Pvc[];
  /** When the pod that was seen was made, in milliseconds since the epoch: an older word on the drain says nothing of it. */
  readonly podCreatedMs: number | undefined;
}

/**
 * True where a time runs, or an annotation says so. One that is past the point of no return and deleted has none: nothing can be
 * taken back of it.
 */
export function hasTime({ state, suspendedMs, isTerminating }: Pvc): boolean {
  const isRemoving = valueIn(state) === "Removing";
  if (isRemoving && isTerminating) return false;
  return isRemoving || suspendedMs !== undefined || valueIn(state) === "Suspended";
}

/** Our finalizer holds it, or a time runs on it that can still be taken away: both go before an uninstall. */
export function isOurs(pvc: Pvc): boolean {
  return pvc.hasOurFinalizer || (hasTime(pvc) && !pvc.isTerminating);
}

/** What a user wrote about the data of a volume is void where a pod was made after that: it may have written. */
export function isDrainVoid({ podCreatedMs }: Pick<Anew, "podCreatedMs">, { drainedMs }: Pvc): boolean {
  return podCreatedMs !== undefined && drainedMs !== undefined && drainedMs < podCreatedMs;
}

/** Undefined if no time runs, or if no observation is against it. */
export function whyAnew(member: Member): Anew | undefined {
  const { name, set, pod, others } = member;
  const pvcs = member.pvcs.filter(hasTime);
  const isWanted = isWantedMember(member);
  if (pvcs.length === 0 || !(isWanted || isUsed(member))) return undefined;
  const rest = { pvcs, podCreatedMs: pod?.createdMs };
  if (isWanted && pod === undefined)
    return {
      ...rest,
      guard: "wanted-again",
      message: `${set.name} wants ${name} again: its time begins again when it is gone`,
    };
  const users = others.map((one) => one.name).join(", ") || "a pod";
  const why = pod === undefined ? `${users} uses a volume of ${name}` : `${name} is there`;
  return {
    ...rest,
    guard: "restamping",
    message: `${why}: the time of its volumes begins again when nothing uses them`,
  };
}
