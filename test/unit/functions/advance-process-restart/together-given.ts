/** A restart of two pods together, as unit tests give it to its decision. */
import type { ManagerStatus } from "../../../../functions/advance-process-restart/calls.ts";
import type { TogetherMember } from "../../../../functions/advance-process-restart/coordinated/decide-member.ts";
import {
  decideTogether,
  type TogetherStep,
  type TogetherView,
} from "../../../../functions/advance-process-restart/coordinated/decide-together.ts";
import {
  togetherPhases as phases,
  shownTogether,
} from "../../../../functions/advance-process-restart/coordinated/phases.ts";
import type { RestartPhase } from "../../../../functions/shared/annotations/restart.ts";
import type { ClaimContent } from "../../../../functions/shared/ledger/claim.ts";
import { claimOf, nowMs, pod, statefulSet } from "../advance-zone-rollout/given.ts";
import { report } from "./given.ts";

export const stem = "coordinated-1";
export const [a, b] = ["a-0", "a-1"] as const;

export interface MemberGiven extends Pick<TogetherMember, "files" | "membership"> {
  readonly status?: Partial<ManagerStatus>;
  readonly silence?: string;
  /** The phase on the pod, where another one than that of the claim; null: none. */
  readonly shown?: RestartPhase | null;
  readonly id?: string;
  readonly uid?: string;
  readonly graceMs?: number;
  readonly isUnready?: boolean;
}

export type Given = Partial<Omit<TogetherView, "claims" | "members">> & { readonly claim?: Partial<ClaimContent> };

const uids = { [a]: `uid-of-${a}`, [b]: `uid-of-${b}` };

export function claimIn(phase: string, changes: Partial<ClaimContent> = {}) {
  const own = { id: `${stem}/a`, phase, epoch: 5, uids, processes: { [a]: "7 1", [b]: "7 1" } };
  return claimOf("a:0-1", "process", { ...own, ...changes });
}

export function memberOf(name: string, claim: TogetherMember["claim"], given: MemberGiven = {}): TogetherMember {
  const { status, silence, shown = shownTogether(claim.phase), id = stem, uid, graceMs = 30_000, isUnready } = given;
  const phase = shown ?? undefined;
  const unready = isUnready ? { readySinceMs: undefined } : {};
  const one = pod(name, { restart: { text: phase, phase, id }, ...(uid && { uid }), ...unready });
  const answer = silence === undefined ? report(name, { restartId: stem, ...status }) : { silence };
  const { files, membership } = given;
  return {
    ...{ claim, pod: one, answer, statefulSet: statefulSet("a", { graceMs }) },
    ...{ files, ...(membership && { membership }) },
  };
}

/** The step of `a-0` and `a-1`: their process managers have confirmed the call of epoch 5, and their pods show the phase. */
export function stepIn(phase: string, [one, other]: readonly MemberGiven[] = [], given: Given = {}): TogetherStep {
  const { claim: changes, ...view } = given;
  const claim = claimIn(phase, changes);
  const members = [memberOf(a, claim, one), memberOf(b, claim, other)];
  return decideTogether({ claims: [claim], members, missing: undefined, isAnchored: true, nowMs, ...view });
}

export const move = (phase: string, epoch = 5) => ({ kind: "move", phase, epoch });
export const guardOf = (step: TogetherStep): string => ("guard" in step ? step.guard : step.kind);
export const messageOf = (step: TogetherStep): string => ("message" in step ? step.message : step.kind);
export const failedIn = (step: TogetherStep) => ("failed" in step ? [...step.failed] : guardOf(step));
export const of = (...status: readonly Partial<ManagerStatus>[]): MemberGiven[] =>
  status.map((one) => ({ status: one }));
export const ago = (ms: number): Given => ({ claim: { stampMs: nowMs - ms } });
export const began = (ms: number): Given => ({ claim: { sinceMs: nowMs - ms, stampMs: nowMs } });
export const unknown = { unknown: "it answered 503" } as const;
export const [yes, no] = [{ value: true }, { value: false }] as const;

export const before = [phases.preparing, phases.restricting, phases.flushing, phases.stopping, phases.killing] as const;
