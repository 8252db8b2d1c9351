/** The input of reviews of evictions: a test states only what it is about. */

import { decide, type EvictionSnapshot } from "../../../../functions/evaluate-eviction/decide.ts";
import type {
  Decision,
  Eviction,
  ReviewedEviction,
} from "../../../../functions/evaluate-eviction/group-commit/sort-decisions.ts";
import type { Denied } from "../../../../functions/shared/admission/definition.ts";
import type { StoredBudget } from "../../../../functions/shared/groups/governing.ts";
import {
  type PodDisruptionBudget,
  parseDisruptionBudget,
} from "../../../../functions/shared/groups/pod-disruption-budget.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import type { StatefulSet, ZoneWorkload } from "../../../../functions/shared/workloads/statefulsets.ts";
import { namespace, nowMs, zoneBudget } from "../advance-zone-rollout/given.ts";

export interface GroupChanges extends Partial<Omit<EvictionSnapshot, "zones" | "asked" | "surroundings">> {
  /** One budget with this spec for all zones, or several budgets. Default: one pod of a zone may be down. */
  readonly budget?: Readonly<Record<string, unknown>>;
  readonly budgets?: readonly StoredBudget[];
  readonly neighbours?: readonly StatefulSet[];
}

/** A pod's name, or further fields of the question about it. */
export type Question = string | (Partial<Eviction> & { readonly name: string; readonly dryRun?: boolean });

function askedOf(question: Question): ReviewedEviction {
  const { dryRun = false, ...eviction } = typeof question === "string" ? { name: question } : question;
  return { dryRun, eviction: { uid: `uid-of-${eviction.name}`, isPinned: true, pin: [], ...eviction } };
}

/** The decisions about questions that are asked together, over zones as {@link zone} draws them. */
export function rule(
  zones: readonly Zone<ZoneWorkload>[],
  questions: readonly Question[],
  changes: GroupChanges = {},
): readonly Decision[] {
  const {
    budget = { maxUnavailable: 1 },
    budgets = [zoneBudget("budget", budget)],
    neighbours = [],
    ...rest
  } = changes;
  return decide({
    key: { namespace, group: "group" },
    nowMs,
    zones,
    departed: [],
    strayClaims: [],
    givenUp: new Map(),
    self: "evaluate-eviction",
    surroundings: { workloads: zones.map(({ workload }) => workload), neighbours, budgets },
    disruptionBudgets: [],
    room: 1_000,
    ...rest,
    asked: questions.map(askedOf),
  });
}

/** The same as words: the guard for each question, or `allowed`. */
export function guards(
  zones: readonly Zone<ZoneWorkload>[],
  questions: readonly Question[],
  changes?: GroupChanges,
): string[] {
  return rule(zones, questions, changes).map(({ answer }) => answer.guard);
}

/** The refusal of one question. */
export function refusal(zones: readonly Zone<ZoneWorkload>[], question: Question, changes?: GroupChanges): Denied {
  const [decision] = rule(zones, [question], changes);
  if (decision === undefined || decision.answer.allowed || decision.reserve !== undefined) {
    throw new Error(`it was not refused: ${JSON.stringify(decision)}`);
  }
  return decision.answer;
}

/** A PodDisruptionBudget over all zones that allows nothing. */
export function disruptionBudget(
  name: string,
  spec: object = {},
  status: object = { disruptionsAllowed: 0 },
): PodDisruptionBudget {
  return parseDisruptionBudget({
    metadata: { name, namespace, uid: `uid-of-${name}`, resourceVersion: "3", generation: 4 },
    spec: { selector: {}, ...spec },
    status: { observedGeneration: 4, currentHealthy: 3, desiredHealthy: 3, ...status },
  });
}
