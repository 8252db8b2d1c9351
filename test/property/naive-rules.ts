/**
 * The rules of a rollout a second time, as simply as possible: from the design's invariants and the reservation protocol, over
 * plain facts, one pod at a time. It shares no line with the product, and need not be fast.
 */
import {
  type BudgetFacts,
  type GroupFacts,
  type SlotFacts,
  self,
  type Tier,
  uidOf,
  type ZoneFacts,
  zoneNameOf,
} from "./facts.ts";

/** A place for a pod: zone number and ordinal. */
export interface Member {
  readonly zone: number;
  readonly ordinal: number;
}

export const podOf = ({ zone, ordinal }: Member): string => `${zoneNameOf(zone)}-${ordinal}`;

function places(facts: GroupFacts): Member[] {
  return facts.zones.flatMap(({ start, replicas, slots }, zone) =>
    Array.from({ length: Math.max(slots.length, start + replicas) }, (_, ordinal) => ({ zone, ordinal })),
  );
}

function slotAt(facts: GroupFacts, { zone, ordinal }: Member): SlotFacts | undefined {
  return facts.zones[zone]?.slots[ordinal];
}

function zoneAt(facts: GroupFacts, { zone }: Member): ZoneFacts {
  return facts.zones[zone] as ZoneFacts;
}

function isSame(one: Member, other: Member): boolean {
  return one.zone === other.zone && one.ordinal === other.ordinal;
}

export function isThere(facts: GroupFacts, place: Member): boolean {
  const slot = slotAt(facts, place);
  return slot !== undefined && slot.health !== "absent";
}

function isWanted(facts: GroupFacts, place: Member): boolean {
  const { start, replicas } = zoneAt(facts, place);
  return start <= place.ordinal && place.ordinal < start + replicas;
}

/** Rule R6, "Ready": for as long as the zone asks for, and not terminating. */
function isUp(facts: GroupFacts, place: Member): boolean {
  const slot = slotAt(facts, place);
  return slot?.health === "ready" && slot.readyForSeconds >= zoneAt(facts, place).minReadySeconds;
}

/** Rule R6: an unsettled reservation exists. */
export function isReserved(facts: GroupFacts, place: Member): boolean {
  const slot = slotAt(facts, place);
  if (slot === undefined || slot.reservation === "none") return false;
  if (!isThere(facts, place)) return isWanted(facts, place);
  return slot.reservation === "of this pod" || !isUp(facts, place);
}

/** Rule R7. */
export function isDown(facts: GroupFacts, place: Member): boolean {
  return isReserved(facts, place) || (isWanted(facts, place) && !isUp(facts, place));
}

/** The places that are down in a zone once those of `also` are taken. */
export function downIn(facts: GroupFacts, zone: number, also: readonly Member[] = []): Member[] {
  return places(facts).filter(
    (place) => place.zone === zone && (isDown(facts, place) || also.some((other) => isSame(other, place))),
  );
}

/** True if something is down in the zone, or if a pod that no StatefulSet wants is not gone yet. */
export function isDisturbed(facts: GroupFacts, zone: number): boolean {
  const leaving = places(facts).some(
    (place) => place.zone === zone && isThere(facts, place) && !isWanted(facts, place),
  );
  return leaving || downIn(facts, zone).length > 0;
}

export function allowedIn({ budget, replicas }: ZoneFacts): number {
  if ("pods" in budget) return budget.pods;
  let pods = 0;
  while ((pods + 1) * 100 <= budget.percent * replicas) pods++;
  return Math.max(1, pods);
}

/** True if another revision is wanted for the pod, and it is not terminating. False while the status is behind. */
export function isOutdated(facts: GroupFacts, place: Member): boolean {
  const slot = slotAt(facts, place);
  if (slot === undefined || !isThere(facts, place) || !isWanted(facts, place)) return false;
  return !zoneAt(facts, place).behind && slot.health !== "terminating" && slot.revision !== "new";
}

/** Rule R13: the pod cannot start, has not begun to, or has run for two minutes without ever being Ready. */
export function isRepair(facts: GroupFacts, place: Member): boolean {
  const { health = "absent", ageSeconds = "unknown" } = slotAt(facts, place) ?? {};
  const isBroken = ["stuck", "stuck at init", "pending", "unheard"].includes(health);
  const isLate = health === "never ready" && ageSeconds !== "unknown" && ageSeconds >= 120;
  return (isBroken || isLate) && isOutdated(facts, place) && !zoneAt(facts, place).paused;
}

/** Rule R13: the pod was Ready once, is down and outdated, and no reservation names it. */
function isMendable(facts: GroupFacts, place: Member): boolean {
  const { health = "absent", reservation } = slotAt(facts, place) ?? {};
  const wasReady = ["not ready", "pending again", "unclear"].includes(health);
  return wasReady && reservation !== "of this pod" && isOutdated(facts, place) && !zoneAt(facts, place).paused;
}

/** Number of pods of its zone that may be down by the zone's own limit and by a budget of zones for the pod. */
function limitFor(facts: GroupFacts, place: Member): number {
  const zone = zoneAt(facts, place);
  const own = allowedIn(zone);
  const [budget, second] = facts.budgets.filter((one) => isSelected(one, slotAt(facts, place)?.tier as Tier));
  const isOne = budget !== undefined && second === undefined && !budget.invalid && budget.partitioning === undefined;
  const isSpanning = facts.foreignTier !== undefined && isOne && isSelected(budget, facts.foreignTier);
  return isOne && !isSpanning ? Math.min(own, allowanceIn(budget, zone, own)) : own;
}

/** A wanted pod terminates, or is known to run the new revision and has had less than two minutes to become ready. */
function isComing(facts: GroupFacts, zone: number): boolean {
  const { slots, behind } = facts.zones[zone] as ZoneFacts;
  return slots.some(({ health, revision, ageSeconds }, ordinal) => {
    if (!isWanted(facts, { zone, ordinal })) return false;
    const isRecent = ageSeconds !== "unknown" && ageSeconds < 120;
    const isNew = revision === "new" && !behind;
    return health === "terminating" || (!["ready", "absent"].includes(health) && isNew && isRecent);
  });
}

/**
 * Rule R13: pods that are replaced because they are down already, while no healthy pod goes. They belong to the first zone
 * that has any, lowest ordinal first, and number as many as the zone's limit leaves beside everything else that is down there.
 */
function mended(facts: GroupFacts): Member[] {
  for (const zone of facts.zones.keys()) {
    const broken = places(facts).filter((place) => place.zone === zone && isMendable(facts, place));
    const free = broken.filter((place) => !isRefused(facts, place));
    if (free.length > 0) {
      const others = downIn(facts, zone).length - broken.length;
      return free.slice(0, Math.max(0, Math.min(...free.map((place) => limitFor(facts, place))) - others));
    }
    if (isComing(facts, zone)) return [];
  }
  return [];
}

/** Seconds until the first pod that runs and was never Ready must be repaired; undefined if there is none. */
export function nextRepairSeconds(facts: GroupFacts): number | undefined {
  const waits = places(facts).flatMap((place) => {
    const { health, ageSeconds = "unknown" } = slotAt(facts, place) ?? {};
    if (health !== "never ready" || ageSeconds === "unknown" || ageSeconds >= 120) return [];
    const isComing = isOutdated(facts, place) && !zoneAt(facts, place).paused && !isRefused(facts, place);
    return isComing ? [120 - ageSeconds] : [];
  });
  return waits.length === 0 ? undefined : Math.min(...waits);
}

/** Invariant Z4: true if a StatefulSet of the group has another strategy. */
export function isForeign(facts: GroupFacts): boolean {
  return facts.zones.some(({ strategy }) => strategy !== "OnDelete");
}

export function isRefused(facts: GroupFacts, place: Member): boolean {
  return slotAt(facts, place)?.refused === true;
}

/** Rule R10: true if the pod is not reserved, or the reservation is ours to finish. */
export function isOurs(facts: GroupFacts, place: Member): boolean {
  const slot = slotAt(facts, place);
  if (slot === undefined || slot.reservation !== "of this pod") return true;
  return slot.reservedBy === self && slot.reservationAgeMs >= 7_000;
}

function isSelected({ tier }: BudgetFacts, other: Tier): boolean {
  return tier === undefined || tier === other;
}

/** As in rollout-operator: a partition is a part of the name, and some names have none. */
function partitionOf({ partitioning }: BudgetFacts, { zone, ordinal }: Member): string | undefined {
  if (partitioning === "zone") return zoneNameOf(zone);
  if (partitioning === "even ordinal" && ordinal % 2 === 1) return undefined;
  return `${ordinal}`;
}

/** As in rollout-operator: true if this other place, in the partition of `place`, does not serve. */
function isShort(
  facts: GroupFacts,
  budget: BudgetFacts,
  place: Member,
  other: Member,
  taken: readonly Member[],
): boolean {
  if (isDown(facts, other) || taken.some((one) => isSame(one, other))) return true;
  if (!isThere(facts, other)) return false;
  if (!isUp(facts, other)) return true;
  const { readyForSeconds } = slotAt(facts, other) as SlotFacts;
  return other.zone !== place.zone && budget.delaySeconds > 0 && readyForSeconds <= budget.delaySeconds;
}

/** Number of pods of a pod's partition that do not serve once those of `taken` are taken, without the pod itself. */
function shortIn(facts: GroupFacts, budget: BudgetFacts, place: Member, taken: readonly Member[]): number {
  const partition = partitionOf(budget, place);
  const peers = places(facts).filter((other) => !isSame(other, place) && partitionOf(budget, other) === partition);
  let short = peers.filter((other) => isShort(facts, budget, place, other, taken)).length;
  facts.zones.forEach(({ tier, replicas }, zone) => {
    const exists = (other: Member) => isThere(facts, other) || isDown(facts, other);
    // A zone of the budget that wants pods but has none of the partition may have lost it (rollout-operator#370).
    const isOfBudget = replicas > 0 && isSelected(budget, tier);
    if (zone !== place.zone && isOfBudget && !peers.some((one) => one.zone === zone && exists(one))) short++;
  });
  return short;
}

/** As in rollout-operator, also for an allowance of 0: then as many as `otherwise`. */
function allowanceIn({ allowance }: BudgetFacts, { replicas, counted }: ZoneFacts, otherwise: number): number {
  if ("pods" in allowance) return allowance.pods === 0 ? otherwise : allowance.pods;
  const whole = Math.min(replicas, counted);
  if (whole === 0 || allowance.percent === 0) return otherwise;
  let pods = 1;
  while ((pods + 1) * 100 <= allowance.percent * whole) pods++;
  return pods;
}

/** The guard of the budget that forbids to take a pod after those of `taken`; undefined if none does. */
export function budgetGuardOf(facts: GroupFacts, place: Member, taken: readonly Member[]): string | undefined {
  const { tier } = slotAt(facts, place) as SlotFacts;
  const governing = facts.budgets.filter((budget) => isSelected(budget, tier));
  const [budget, second] = governing;
  if (budget === undefined) return undefined;
  if (governing.some(({ invalid }) => invalid)) return "invalid-budget";
  if (second !== undefined) return "several-budgets";
  if (facts.foreignTier !== undefined && isSelected(budget, facts.foreignTier)) return "budget-spans-groups";
  const zone = zoneAt(facts, place);
  if (budget.partitioning === undefined) {
    const down = downIn(facts, place.zone, [...taken, place]).length;
    return down > allowanceIn(budget, zone, allowedIn(zone)) ? "zone-budget" : undefined;
  }
  if (partitionOf(budget, place) === undefined) return "partition-not-identified";
  return shortIn(facts, budget, place, taken) + 1 > allowanceIn(budget, zone, 1) ? "partition-budget" : undefined;
}

/** Invariants Z1 to Z4 and the budgets, for pods that are deleted one after the other; undefined if they hold. */
export function violationOf(facts: GroupFacts, deleted: readonly Member[]): string | undefined {
  if (deleted.length > 0 && isForeign(facts)) return "Z4: a StatefulSet is not OnDelete";
  for (const [index, place] of deleted.entries()) {
    const { paused } = zoneAt(facts, place);
    if (paused) return `Z4: ${podOf(place)} is in a paused zone`;
    if (!isOutdated(facts, place)) return `Z3: ${podOf(place)} is not outdated`;
    if (!isOurs(facts, place)) return `R10: ${podOf(place)} is reserved by another, or was just now`;
    for (const other of facts.zones.keys()) {
      if (other === place.zone) continue;
      if (deleted.some(({ zone }) => zone === other)) return `Z1: two zones are taken with ${podOf(place)}`;
      if (isDisturbed(facts, other)) return `Z1: ${zoneNameOf(other)} is not ready when ${podOf(place)} goes`;
    }
    const down = downIn(facts, place.zone, deleted).length;
    const allowed = allowedIn(zoneAt(facts, place));
    if (down > allowed) return `Z2: with ${podOf(place)} ${down} are down and ${allowed} may be`;
    const guard = budgetGuardOf(facts, place, deleted.slice(0, index));
    if (guard !== undefined) return `E1: ${podOf(place)} is held by ${guard}`;
    // The budget of a zone counts all pods that go together, in whatever order they were chosen.
    const others = deleted.filter((other) => other !== place);
    if (budgetGuardOf(facts, place, others) === "zone-budget") return `Z2: ${podOf(place)} goes beyond its budget`;
  }
  return undefined;
}

/** True for a zone whose pods are complete, up and new, while `status.currentRevision` does not say so yet. */
export function isRecordable(facts: GroupFacts, zone: number): boolean {
  const { paused, behind, recorded, slots } = facts.zones[zone] as ZoneFacts;
  if (paused || behind || recorded === "new" || isForeign(facts) || isDisturbed(facts, zone)) return false;
  return slots.every(({ health, revision }) => health === "absent" || revision === "new");
}

/** Every single act that the rules allow, as `summary` in decide.test.ts writes them. */
export function possible(facts: GroupFacts): Set<string> {
  const acts = new Set<string>();
  if (isForeign(facts)) return acts;
  for (const place of places(facts)) {
    if (isRefused(facts, place)) continue;
    if (isRepair(facts, place)) acts.add(`repair ${uidOf(podOf(place))}`);
    else if (isOutdated(facts, place) && violationOf(facts, [place]) === undefined) {
      acts.add(`delete ${uidOf(podOf(place))}`);
    }
  }
  const isHealthyTaken = [...acts].some((act) => act.startsWith("delete"));
  if (!isHealthyTaken) for (const place of mended(facts)) acts.add(`repair ${uidOf(podOf(place))}`);
  facts.zones.forEach(({ recordRefused }, zone) => {
    if (isRecordable(facts, zone) && !recordRefused) acts.add(`record-revision set-${zoneNameOf(zone)}`);
  });
  return acts;
}

/** The pods that a guard may name: at most one zone is disturbed, and then they belong to that zone. */
function waiting(facts: GroupFacts): Member[] {
  const disturbed = [...facts.zones.keys()].filter((zone) => isDisturbed(facts, zone));
  if (disturbed.length > 1) return [];
  return places(facts).filter(
    (place) =>
      isOutdated(facts, place) &&
      !isRepair(facts, place) &&
      !zoneAt(facts, place).paused &&
      (disturbed.length === 0 || place.zone === disturbed[0]),
  );
}

/** True if the zone's own limit is used up, whatever a budget allows. */
function isLimitSpent(facts: GroupFacts, place: Member): boolean {
  return downIn(facts, place.zone, [place]).length > allowedIn(zoneAt(facts, place));
}

/** True if a guard tells the truth: every wait must be true, and not only harmless. */
export function isTrueOf(guard: string, facts: GroupFacts): boolean {
  const all = places(facts);
  const disturbed = [...facts.zones.keys()].filter((zone) => isDisturbed(facts, zone));
  const only = disturbed.length === 1 ? disturbed[0] : undefined;
  const onlyZone = only === undefined ? undefined : facts.zones[only];
  const outdated = all.filter((place) => isOutdated(facts, place) && !isRepair(facts, place));
  const inOnly = outdated.filter(({ zone }) => zone === only);
  const outdatedIn = (zone: number) => outdated.some((place) => place.zone === zone);
  const isNobodys = (place: Member) => !isRefused(facts, place) && isOurs(facts, place);
  switch (guard) {
    case "strategy-not-on-delete":
      return isForeign(facts);
    case "zones-down":
      return disturbed.length > 1;
    case "paused-zone-down":
      return onlyZone?.paused === true;
    case "status-behind":
      return onlyZone === undefined ? facts.zones.some(({ behind, paused }) => behind && !paused) : onlyZone.behind;
    case "zone-settling":
      return onlyZone !== undefined && !onlyZone.paused && !onlyZone.behind && inOnly.length === 0;
    case "budget":
      return inOnly.length > 0 && inOnly.every((place) => !isNobodys(place) || isLimitSpent(facts, place));
    case "zone-budget":
    case "partition-budget":
    case "partition-not-identified":
    case "several-budgets":
    case "invalid-budget":
    case "budget-spans-groups":
      return waiting(facts).some(
        (place) => isNobodys(place) && !isLimitSpent(facts, place) && budgetGuardOf(facts, place, []) === guard,
      );
    case "delete-refused":
      return outdated.some((place) => isRefused(facts, place));
    case "paused":
      return disturbed.length === 0 && facts.zones.some(({ paused }, zone) => paused && outdatedIn(zone));
    case "done":
      return (
        disturbed.length === 0 && outdated.length === 0 && facts.zones.every(({ behind, paused }) => !behind || paused)
      );
    default:
      return false;
  }
}
