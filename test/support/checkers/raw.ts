/**
 * What checkers read from the JSON of the API server: written as simply as possible, without the product's code, so that a
 * mistake in the product's parsers is not repeated here.
 */
import type { StoredObject, StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";

export type Labels = Readonly<Record<string, string>>;

export const groupLabel = "rollout-group";

export function setNameOf(podName: string): string {
  return podName.slice(0, podName.lastIndexOf("-"));
}

export function ordinalIn(podName: string): number {
  return Number(podName.slice(podName.lastIndexOf("-") + 1));
}

export function isTerminating({ metadata }: StoredPod | StoredStatefulSet): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** True if the pod is Ready by its condition, and not terminating. */
export function isUp(pod: StoredPod): boolean {
  return !isTerminating(pod) && pod.status.conditions?.find(({ type }) => type === "Ready")?.status === "True";
}

/** Since when the pod has been up, in milliseconds since the epoch; undefined while it is not. */
export function upSinceMs(pod: StoredPod): number | undefined {
  if (!isUp(pod)) return undefined;
  return Date.parse(pod.status.conditions?.find(({ type }) => type === "Ready")?.lastTransitionTime ?? "");
}

export function revisionOf(pod: StoredPod): string | undefined {
  return pod.metadata.labels?.["controller-revision-hash"];
}

/** Uid of the pod's controller. */
export function ownerOf(pod: StoredPod): string | undefined {
  return pod.metadata.ownerReferences?.find(({ controller }) => controller === true)?.uid;
}

/** The revision that its pods should have; undefined while its controller is behind. */
export function wantedRevision({ metadata, status }: StoredStatefulSet): string | undefined {
  return status.observedGeneration === metadata.generation ? status.updateRevision : undefined;
}

export function wantedOrdinals(set: StoredStatefulSet): number[] {
  const start = set.spec.ordinals?.start ?? 0;
  return isTerminating(set) ? [] : Array.from({ length: set.spec.replicas }, (_, index) => start + index);
}

export function wantsOrdinal(set: StoredStatefulSet, ordinal: number): boolean {
  const start = set.spec.ordinals?.start ?? 0;
  return !isTerminating(set) && ordinal >= start && ordinal < start + set.spec.replicas;
}

export function isPaused({ metadata }: StoredStatefulSet): boolean {
  return metadata.annotations?.["grafana.com/rollout-paused"] === "true";
}

export function strategyOf({ spec }: StoredStatefulSet): string {
  return spec.updateStrategy.type;
}

/** Number of pods of a zone that a rollout may have down; 1 if the annotation is missing or makes no sense. */
export function rolloutLimit({ metadata, spec }: StoredStatefulSet): number {
  const text = metadata.annotations?.["rollout-max-unavailable"] ?? "1";
  if (/^[1-9][0-9]*$/.test(text)) return Number(text);
  if (!/^[1-9][0-9]*%$/.test(text)) return 1;
  return Math.max(1, Math.floor((Number.parseInt(text, 10) * spec.replicas) / 100));
}

export function has(labels: Labels | undefined, wanted: Labels): boolean {
  for (const label in wanted) if (labels?.[label] !== wanted[label]) return false;
  return true;
}

/** A budget that Sluice can keep. */
export interface Budget {
  readonly name: string;
  readonly selected: Labels;
  readonly most: number;
  readonly isPercentage: boolean;
  /** Undefined: each zone has the budget to itself. */
  readonly partitions: RegExp | undefined;
  readonly delayMs: number;
}

interface BudgetSpec {
  readonly selector: { readonly matchLabels: Labels };
  readonly maxUnavailable?: number;
  readonly maxUnavailablePercentage?: number;
  readonly podNamePartitionRegex?: string;
  readonly podNameRegexGroup?: number;
  readonly crossZoneEvictionDelay?: string;
}

/** Reads a budget; undefined if Sluice cannot keep it. The simulation writes no other budgets. */
export function readBudget({ metadata, spec }: Pick<StoredObject, "metadata" | "spec">): Budget | undefined {
  const { selector, maxUnavailable, maxUnavailablePercentage, podNamePartitionRegex, crossZoneEvictionDelay } =
    spec as BudgetSpec;
  if (podNamePartitionRegex === "(") return undefined;
  return {
    name: metadata.name,
    selected: selector.matchLabels,
    most: maxUnavailable ?? maxUnavailablePercentage ?? 1,
    isPercentage: maxUnavailable === undefined && maxUnavailablePercentage !== undefined,
    partitions: podNamePartitionRegex === undefined ? undefined : expressionOf(podNamePartitionRegex),
    delayMs: 1000 * Number.parseInt(crossZoneEvictionDelay ?? "0", 10),
  };
}

const expressions = new Map<string, RegExp>();

/** Compiles an expression once, because budgets are read for each pod that is taken. */
function expressionOf(text: string): RegExp {
  const expression = expressions.get(text) ?? new RegExp(`^${text}$`);
  expressions.set(text, expression);
  return expression;
}

export function partitionOf({ partitions }: Budget, podName: string): string | undefined {
  return partitions?.exec(podName)?.[1];
}

/**
 * Number of pods of a zone that a budget lets be down. A percentage counts the smaller of the wanted and the existing
 * replicas.
 */
export function budgetLimit(budget: Budget, { spec, status, metadata }: StoredStatefulSet): number {
  if (!budget.isPercentage) return budget.most;
  const wanted = metadata.deletionTimestamp === undefined ? spec.replicas : 0;
  const size = Math.min(wanted, status.replicas ?? 0);
  if (budget.most === 0 || size === 0) return 0;
  return Math.max(1, Math.floor((budget.most * size) / 100));
}

/**
 * The same for an eviction of one ordinal. A percentage is at least one for a pod that its StatefulSet no longer wants (rule
 * R24).
 */
export function evictionLimit(budget: Budget, set: StoredStatefulSet, ordinal: number): number {
  const limit = budgetLimit(budget, set);
  return limit === 0 && budget.isPercentage && budget.most > 0 && !wantsOrdinal(set, ordinal) ? 1 : limit;
}

/** One reservation of a ledger. */
export interface Reserved {
  readonly set: string;
  readonly ordinal: number;
  readonly uid: string;
  readonly by: string;
  readonly stampMs: number;
}

/** The reservations in a Lease; undefined if they cannot be read. */
export function readReservations({ metadata }: Pick<StoredObject, "metadata">): Reserved[] | undefined {
  try {
    const table = JSON.parse(metadata.annotations?.["sluice.dev/reservations"] ?? "{}") as Record<
      string,
      Record<string, [string, string, number]>
    >;
    return Object.entries(table).flatMap(([set, zone]) =>
      Object.entries(zone).map(([ordinal, [uid, by, stampMs]]) => ({
        set,
        ordinal: Number(ordinal),
        uid,
        by,
        stampMs,
      })),
    );
  } catch {
    return undefined;
  }
}

/** The group whose ledger it is. */
export function ledgerGroupOf({ metadata }: Pick<StoredObject, "metadata">): string {
  return metadata.annotations?.["sluice.dev/group"] ?? "";
}
