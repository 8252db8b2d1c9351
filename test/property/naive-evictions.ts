/**
 * The rules of evictions a second time, as simply as possible: rollout-operator's sections 4.3 to 4.6 and the rules R11, R14,
 * R15 and R25 over plain facts, one pod at a time. It shares no line with the product, and need not be fast.
 */
import {
  type BudgetFacts,
  type EvictionFacts,
  letterOf,
  type PlaceFacts,
  type QuestionFacts,
  reserverOf,
  type Slicing,
} from "./eviction-facts.ts";

/** A place for a pod: zone number and ordinal. */
export interface Member {
  readonly zone: number;
  readonly ordinal: number;
}

const nameOf = ({ zone, ordinal }: Member): string => `${letterOf(zone)}-${ordinal}`;
const isSame = (one: Member, other: Member): boolean => one.zone === other.zone && one.ordinal === other.ordinal;

export function placeOf({ zones }: EvictionFacts, { zone, place }: QuestionFacts): Member {
  return { zone, ordinal: (zones[zone]?.start ?? 0) + place };
}

/** The facts of a place; undefined if neither a pod nor a wish for one was drawn. */
function at({ zones }: EvictionFacts, { zone, ordinal }: Member): PlaceFacts | undefined {
  const facts = zones[zone];
  return facts?.places[ordinal - facts.start];
}

/** Every place that has a pod, should have one, or is reserved. */
export function places({ zones }: EvictionFacts): Member[] {
  return zones.flatMap(({ start, places: drawn }, zone) => drawn.map((_, index) => ({ zone, ordinal: start + index })));
}

function isThere(facts: EvictionFacts, place: Member): boolean {
  const pod = at(facts, place)?.pod;
  return pod !== undefined && pod !== "absent";
}

function isWanted({ zones }: EvictionFacts, { zone, ordinal }: Member): boolean {
  const { start = 0, replicas = 0 } = zones[zone] ?? {};
  return ordinal >= start && ordinal < start + replicas;
}

/** Rule R6: Ready for as long as the zone asks for. A pod that is ready since an unknown time counts as just ready. */
function isUp(facts: EvictionFacts, place: Member): boolean {
  const { pod, readyFor } = at(facts, place) ?? {};
  const least = facts.zones[place.zone]?.minReadySeconds ?? 0;
  if (pod !== "ready") return false;
  return least === 0 || (readyFor !== "unknown" && (readyFor ?? 0) >= least);
}

/** Rule R6: an unsettled reservation exists. */
export function isReserved(facts: EvictionFacts, place: Member): boolean {
  const { reserved } = at(facts, place) ?? {};
  if (reserved === undefined || reserved === "no") return false;
  if (!isThere(facts, place)) return isWanted(facts, place);
  return reserved === "for this pod" || !isUp(facts, place);
}

/** Rule R7, including pods that were allowed before and have not gone yet. */
export function isDown(facts: EvictionFacts, taken: readonly Member[], place: Member): boolean {
  const isTaken = taken.some((other) => isSame(other, place));
  return isTaken || isReserved(facts, place) || (isWanted(facts, place) && !isUp(facts, place));
}

/** The pod exists, and leaves because of a smaller number of replicas. */
export function isUnwanted(facts: EvictionFacts, place: Member): boolean {
  return isThere(facts, place) && !isWanted(facts, place);
}

function isSelected(budget: BudgetFacts, labels: { readonly app: boolean; readonly zone: string }): boolean {
  if (!labels.app || budget.selects === "others") return false;
  return budget.selects === "all" || budget.selects === `zone ${labels.zone}`;
}

export function budgetsOf({ budgets }: EvictionFacts, { zone }: Member): BudgetFacts[] {
  return budgets.filter((budget) => isSelected(budget, { app: true, zone: letterOf(zone) }));
}

/** Section 4.4. */
export function allowanceFor(facts: EvictionFacts, { may }: BudgetFacts, place: Member): number {
  const { zone } = place;
  if (may === "nothing said") return 1;
  if (may === "nonsense") return 0;
  if ("pods" in may) return may.pods;
  const { replicas = 0, counted = 0 } = facts.zones[zone] ?? {};
  const base = replicas < counted ? replicas : counted;
  if (may.percent === 0) return 0;
  // For a pod that leaves, a percentage is at least one (rule R24).
  if (base === 0) return isWanted(facts, place) ? 0 : 1;
  let pods = 0;
  while ((pods + 1) * 100 <= may.percent * base) pods++;
  return pods === 0 ? 1 : pods;
}

export function sliceOf(slicing: Slicing, name: string): string | undefined {
  const [letter = "", digits = ""] = name.split("-");
  switch (slicing) {
    case "by ordinal":
      return digits;
    case "by first digit":
      return digits.slice(0, 1);
    case "by zone":
      return letter;
    case "only of b":
      return letter === "b" ? digits : undefined;
    default:
      return undefined;
  }
}

/**
 * Sections 4.5 (step 10) and 4.6: number of pods of a partition, over all zones, that are not as they should be, without the
 * pod itself.
 */
export function downInSlice(facts: EvictionFacts, taken: readonly Member[], budget: BudgetFacts, own: Member): number {
  const slice = sliceOf(budget.slicing, nameOf(own));
  const isInSlice = (name: string) => sliceOf(budget.slicing, name) === slice;
  let down = facts.departed.filter((ordinal) => isInSlice(`y-${ordinal}`)).length;
  for (const [zone, { labelled, replicas }] of facts.zones.entries()) {
    let members = 0;
    for (const place of places(facts)) {
      if (place.zone !== zone || isSame(place, own) || !isInSlice(nameOf(place))) continue;
      const counts = isThere(facts, place) || isWanted(facts, place) || isReserved(facts, place);
      if (!counts) continue;
      members++;
      if (isDown(facts, taken, place) || !isUp(facts, place)) down++;
      else if (zone !== own.zone && !isSettledFor(facts, place, budget.delaySeconds)) down++;
    }
    const isOfBudget = isSelected(budget, { app: labelled, zone: letterOf(zone) });
    if (zone !== own.zone && members === 0 && replicas > 0 && isOfBudget) down++;
  }
  return down;
}

/** Section 4.6: it has been ready for longer than the delay. */
function isSettledFor(facts: EvictionFacts, place: Member, delaySeconds: number): boolean {
  const { readyFor } = at(facts, place) ?? {};
  return delaySeconds === 0 || (readyFor !== "unknown" && (readyFor ?? 0) > delaySeconds);
}

/** Section 4.5, step 10, for a zone: number of pods that are not as they should be, without the pod itself. */
export function downInZone(facts: EvictionFacts, taken: readonly Member[], own: Member): number {
  return places(facts).filter((place) => {
    if (place.zone !== own.zone || isSame(place, own)) return false;
    return isDown(facts, taken, place) || (isUnwanted(facts, place) && !isUp(facts, place));
  }).length;
}

function isWhole(facts: EvictionFacts, taken: readonly Member[], zone: number): boolean {
  return !places(facts).some((place) => {
    return place.zone === zone && (isDown(facts, taken, place) || isUnwanted(facts, place));
  });
}

/** What kube-apiserver would answer after us. */
function isRefusedByDisruptionBudgets(facts: EvictionFacts, place: Member): boolean {
  const [only, second] = facts.disruptionBudgets;
  const pod = at(facts, place)?.pod;
  if (only === undefined || pod === "pending") return false;
  if (second !== undefined) return true;
  if (pod === "not ready" && (only.sparesUnready || only.healthy)) return false;
  return only.behind || only.allows === 0;
}

function isOfNothing({ may }: BudgetFacts): boolean {
  if (typeof may === "string") return false;
  return "pods" in may ? may.pods === 0 : may.percent === 0;
}

/** The PodDisruptionBudget wants all of its expected pods healthy, by numbers of its current generation. */
function isRefusedForever(facts: EvictionFacts, place: Member): boolean {
  const [only, second] = facts.disruptionBudgets;
  if (only === undefined) return false;
  if (second !== undefined) return isRefusedByDisruptionBudgets(facts, place);
  if (only.behind) return false;
  return only.expects === 2 && isRefusedByDisruptionBudgets(facts, place);
}

/** The guard that answers a question after those before it, of which `taken` were allowed for real. */
export function guardFor(facts: EvictionFacts, question: QuestionFacts, taken: readonly Member[]): string {
  const place = placeOf(facts, question);
  const facing = at(facts, place);
  if (facing === undefined || !isThere(facts, place) || question.uid !== "as it is") return "pod-unseen";
  // Rule R14, and R11 if nothing pins the pod that was decided.
  if (facing.pod === "ended") return question.pinned ? "exempt" : "pod-unseen";
  if (facing.pod === "terminating") return question.pinned ? "exempt" : "pod-leaving";
  // Section 4.3.
  const found = budgetsOf(facts, place);
  const [budget] = found;
  if (budget === undefined) return question.pinned ? "out-of-scope" : "pod-unseen";
  if (found.some(({ may }) => may === "nonsense")) return "invalid-budget";
  if (found.length > 1) return "several-budgets";
  if (facts.foreign && isSelected(budget, { app: true, zone: "x" })) return "budget-spans-groups";
  // Rule R25.
  if (isOfNothing(budget) || isRefusedForever(facts, place)) return "never-possible";
  // Rule R11.
  const isReplacement = isReserved(facts, place) && facing.reserved === "for the pod before";
  if (!question.pinned && isReplacement && facing.reservationAgeMs < 150_000) return "replacement-reserved";
  const isOurs = reserverOf(Number(nameOf(place).split("-")[1])) === "evaluate-eviction";
  const isUnderWay = isReserved(facts, place) && !isReplacement && !(isOurs && facing.reservationAgeMs >= 7_000);
  const isTaken = taken.some((other) => isSame(other, place));
  if (!question.pinned && (isUnderWay || isTaken)) return "replacement-reserved";
  const refusal = refusalByBudget(facts, taken, budget, place);
  if (refusal !== undefined) return refusal;
  if (isRefusedByDisruptionBudgets(facts, place)) return "pod-disruption-budget";
  const isNew = !isReserved(facts, place) && !taken.some((other) => isSame(other, place));
  const made = taken.filter((other) => !isReserved(facts, other)).length;
  return isNew && made >= facts.room ? "ledger-full" : "allowed";
}

/** Section 4.5, steps 7 to 11. */
function refusalByBudget(
  facts: EvictionFacts,
  taken: readonly Member[],
  budget: BudgetFacts,
  place: Member,
): string | undefined {
  const allowed = allowanceFor(facts, budget, place);
  if (allowed === 0) return "max-unavailable-zero";
  if (facts.zones.length < 2) return "too-few-zones";
  if (budget.slicing !== "none") {
    const slice = sliceOf(budget.slicing, nameOf(place));
    if (slice === undefined) return "partition-not-identified";
    return downInSlice(facts, taken, budget, place) >= allowed ? "partition-budget" : undefined;
  }
  if (facts.departed.length > 0) return "zone-departed";
  for (const zone of facts.zones.keys()) {
    if (zone !== place.zone && !isWhole(facts, taken, zone)) return "zones-down";
  }
  return downInZone(facts, taken, place) >= allowed ? "zone-budget" : undefined;
}

/**
 * Invariant E1 for all pods that were allowed for real, each counted with those before it; undefined if it holds. The pods of
 * two zones may go by two budgets with other partitions, and each later pod must keep only its own budget.
 */
export function violationOf(facts: EvictionFacts, allowedInTurn: readonly Member[]): string | undefined {
  for (const [index, place] of allowedInTurn.entries()) {
    const taken = allowedInTurn.slice(0, index);
    const [budget] = budgetsOf(facts, place);
    if (budget === undefined) continue;
    const allowed = allowanceFor(facts, budget, place);
    const isZoned = budget.slicing === "none";
    // The delay limits when a pod may go, and not how many are down.
    const undelayed = { ...budget, delaySeconds: 0 };
    const others = isZoned ? downInZone(facts, taken, place) : downInSlice(facts, taken, undelayed, place);
    if (others + 1 > allowed) return `E1: with ${nameOf(place)} ${others + 1} are down, and ${allowed} may be`;
    // Invariant Z1.
    const torn = [...facts.zones.keys()].find((zone) => zone !== place.zone && !isWhole(facts, taken, zone));
    if (isZoned && torn !== undefined) return `E1: ${letterOf(torn)} is not whole, and ${nameOf(place)} goes`;
  }
  return undefined;
}
