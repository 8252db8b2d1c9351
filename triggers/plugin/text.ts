/** The text of `kubectl sluice why` for people: aligned columns, the worst problem in words, durations instead of times. */

import type { GuardExplanation } from "../../functions/shared/base/guards.ts";
import type { ClaimInspection } from "./claims.ts";
import type {
  BudgetInspection,
  FunctionInspection,
  GroupInspection,
  ReservationInspection,
  ZoneInspection,
} from "./inspection.ts";
import { formatSpan } from "./span.ts";

/** Makes a heading stand out on a terminal that can show it. */
export type Emphasis = (text: string) => string;

/** Ordinals, ascending, with neighbours as ranges: `0-4, 7`. */
export function formatOrdinals(ordinals: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const ordinal of ordinals) {
    const last = runs.at(-1);
    if (last?.[1] === ordinal - 1) last[1] = ordinal;
    else runs.push([ordinal, ordinal]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
}

/** Everything about one group. */
export function formatGroup(inspection: GroupInspection, emphasize: Emphasis): string {
  const { zones, reservations, claims, functions, refusals, budgets, ungovernable, neverPossible, waiting } =
    inspection;
  const warnings = zones.flatMap(({ name, warnings }) => warnings.map((message) => `${name}: ${message}`));
  if (inspection.otherOperator !== null) warnings.push(`other-operator: ${inspection.otherOperator}`);
  if (ungovernable !== null) warnings.push(`evictions: ${ungovernable}`);
  warnings.push(...neverPossible.map((message) => `evictions: never-possible: ${message}`));
  const atMs = Date.parse(inspection.at);
  const refused = refusals.map(({ pod, sentence: message, triedAgainAt }) => [
    pod,
    formatSpan(Date.parse(triedAgainAt) - atMs),
    message,
  ]);
  const waits = waiting.map(({ zone, sentence: message, at }) => [zone, formatSpan(atMs - Date.parse(at)), message]);
  const sections = [
    [summaryOf(inspection), ...ledgerLines(inspection)],
    tableOf(["ZONE", "READY", "OUTDATED", "ROLLOUT LIMIT", "DOWN"], zones.map(zoneRow), emphasize),
    tableOf(["RESERVED POD", "FUNCTION", "AGE", "NEXT"], reservations.map(reservationRow(atMs)), emphasize),
    tableOf(["CLAIMED", "FOR", "FUNCTION", "AGE", "ENDS"], claims.map(claimRow(atMs)), emphasize),
    tableOf(["REFUSED POD", "TRIED AGAIN IN", "WHY"], refused, emphasize),
    tableOf(["EVICTION WAITS", "SINCE", "WHY"], waits, emphasize),
    tableOf(["BUDGET", "ALLOWS"], budgets.map(budgetRow), emphasize),
    warnings.map((message) => `${emphasize("WARNING")} ${message}`),
    ...functions.map((one) => functionLines(one, atMs, emphasize)),
  ];
  const shown = sections.filter((lines) => lines.length > 0).map((lines) => lines.join("\n"));
  return `${shown.join("\n\n")}\n`;
}

/** One line for each group. */
export function formatGroups(groups: readonly GroupInspection[], emphasize: Emphasis, hasNamespaces = false): string {
  const rows = groups.map((inspection) => {
    const { namespace, group, zones, at } = inspection;
    const { ready, wanted, outdated, reserved } = countsOf(inspection);
    const [message, since] = latestVerdict(inspection);
    const span = since === undefined ? "-" : formatSpan(Date.parse(at) - Date.parse(since));
    const place = hasNamespaces ? [namespace] : [];
    return [...place, group, `${zones.length}`, `${ready}/${wanted}`, `${outdated}`, `${reserved}`, span, message];
  });
  const place = hasNamespaces ? ["NAMESPACE"] : [];
  const headings = [...place, "GROUP", "ZONES", "READY", "OUTDATED", "RESERVED", "SINCE", "SAYS"];
  return `${tableOf(headings, rows, emphasize).join("\n")}\n`;
}

function countsOf({ zones, reservations }: GroupInspection) {
  const sum = (count: (zone: ZoneInspection) => number) => zones.reduce((total, zone) => total + count(zone), 0);
  return {
    ready: sum(({ ready }) => ready),
    wanted: sum(({ wanted }) => wanted),
    outdated: sum(({ outdated }) => outdated),
    reserved: reservations.length,
  };
}

/** The present state, and since when, if that is known. */
function latestVerdict({ ledger, functions }: GroupInspection): [string, string | undefined] {
  if (ledger.unreadable !== null) return [`ledger-unreadable: ${ledger.unreadable}`, undefined];
  const verdicts = functions.map(({ recorded, now }) => {
    const isCurrent = now === null || (recorded?.guard === now.guard && recorded.zone === now.zone);
    const since = isCurrent ? recorded?.since : undefined;
    const { guard, sentence: message } = now ?? recorded ?? { guard: "nothing", sentence: "" };
    return { text: `${guard}: ${message}`, since };
  });
  return [verdicts.map(({ text }) => text).join("; ") || "-", verdicts.find(({ since }) => since !== undefined)?.since];
}

function summaryOf(inspection: GroupInspection): string {
  const { namespace, group, zones } = inspection;
  const { ready, wanted, outdated, reserved } = countsOf(inspection);
  const what =
    zones.length === 0
      ? "no StatefulSet is in it any more"
      : `${ready} of ${wanted} pods ready, ${outdated} outdated, ${reserved} reserved`;
  return `${group} in namespace ${namespace}: ${what}`;
}

function ledgerLines({ ledger }: GroupInspection): string[] {
  if (ledger.unreadable !== null) return [`Nothing is permitted: ${ledger.unreadable}`];
  if (!ledger.exists) return [`There is no ledger ${ledger.name} yet: no function has looked at this group.`];
  return [];
}

function zoneRow(zone: ZoneInspection): string[] {
  const { name, ready, wanted, outdated, maxUnavailable, updateStrategy, down, missingBesides, leaving } = zone;
  const byReason = Map.groupBy(down, ({ why }) => why);
  const parts = [...byReason].map(([why, pods]) => `${why}: ${formatOrdinals(pods.map(({ ordinal }) => ordinal))}`);
  if (missingBesides > 0) parts.push(`${missingBesides} more missing`);
  if (leaving.length > 0) parts.push(`leaving: ${leaving.length}`);
  const notes = [zone.paused ? "paused" : "", updateStrategy === "OnDelete" ? "" : updateStrategy].filter(Boolean);
  const remarks = [parts.join("; ") || "-", ...notes.map((note) => `(${note})`)].join(" ");
  return [name, `${ready}/${wanted}`, `${outdated}`, `${maxUnavailable}`, remarks];
}

function reservationRow(atMs: number) {
  return ({ pod, function: by, at, next }: ReservationInspection) => [pod, by, formatSpan(atMs - Date.parse(at)), next];
}

function claimRow(atMs: number) {
  return ({ zone, members, kind, phase, function: by, since, ends }: ClaimInspection) => [
    members === null ? zone : `${zone}: ${members}`,
    phase === null ? kind : `${kind} (${phase})`,
    by || "-",
    since === null ? "-" : formatSpan(atMs - Date.parse(since)),
    ends,
  ];
}

function budgetRow(budget: BudgetInspection): string[] {
  if (budget.invalid !== null) return [budget.name, `invalid, so no healthy pod may be evicted: ${budget.invalid}`];
  const { maxUnavailable, maxUnavailablePercentage, podNamePartitionRegex, crossZoneEvictionDelaySeconds } = budget;
  const amount = maxUnavailable === null ? `${maxUnavailablePercentage}% of the pods` : `${maxUnavailable} down`;
  const where = podNamePartitionRegex === null ? "in one zone at a time" : `in each partition ${podNamePartitionRegex}`;
  const delay = crossZoneEvictionDelaySeconds === 0 ? "" : `, ready for ${crossZoneEvictionDelaySeconds} s`;
  return [budget.name, `${amount} ${where}${delay}`];
}

/** The last verdict, whether it still holds, and what comes next. */
function functionLines(
  { function: name, recorded, now, stale }: FunctionInspection,
  atMs: number,
  emphasize: Emphasis,
) {
  const lines = [`${emphasize(name)} has said nothing about this group yet`];
  if (recorded !== null) {
    const age = formatSpan(atMs - Date.parse(recorded.since));
    const written = formatSpan(atMs - Date.parse(recorded.at));
    lines[0] = `${emphasize(name)} said ${recorded.guard}, for ${age}, written ${written} ago${stale ? "; that is stale" : ""}`;
    lines.push(`  ${recorded.sentence}`, todoLine(recorded));
  }
  if (now === null) return lines;
  const again = now.recheckSeconds === null ? "at the next event" : `in ${now.recheckSeconds} s, or at the next event`;
  const isUnchanged = recorded !== null && !stale && recorded.sentence === now.sentence;
  if (isUnchanged) return [...lines, `Next: it reconciles again ${again}`];
  const hint = stale
    ? "If that is not written within 5 minutes, no process of Sluice serves this group."
    : `It reconciles again ${again}.`;
  return [...lines, `Next: ${now.guard}`, `  ${now.sentence}`, todoLine(now), `  ${hint}`];
}

function todoLine({ todo }: GuardExplanation): string {
  return todo === null ? "  this version does not know it" : `  To do: ${todo}`;
}

/** Columns as wide as their widest cell; nothing at all without rows. */
export function tableOf(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  emphasize: Emphasis,
): string[] {
  if (rows.length === 0) return [];
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => (row[column] ?? "").length)),
  );
  const align = (row: readonly string[]) =>
    row.map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0))).join("  ");
  return [emphasize(align(headings)), ...rows.map(align)];
}
