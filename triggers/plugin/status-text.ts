/** The status for people, in the order of the page, and cut to the size of a screen. */
import type { GuardExplanation } from "../../functions/shared/base/guards.ts";
import type {
  GroupStatus,
  PersonEntry,
  Status,
  VolumeStatus,
  ZoneStatus,
} from "../../functions/shared/contract/status.ts";
import { groupPathOf } from "../../functions/shared/workloads/statefulsets.ts";
import { formatSpan } from "./span.ts";
import type { Screen } from "./terminal.ts";
import { type Emphasis, tableOf } from "./text.ts";

/** The most parts that are named where they are left out for one reason. */
const mostPartsNamed = 3;
/** The most runs of pods that a zone lists. */
const mostRuns = 20;

export function formatStatus(status: Status, emphasize: Emphasis): string {
  const { at, groups, needsPerson, waiting, events, volumes } = status;
  const working = groups.filter(({ state }) => state !== "idle");
  const resting = groups.filter(({ state }) => state === "idle");
  const evictions = (waiting ?? []).map(({ namespace, zone, guard, sentence: message, at: last, refused }) => [
    `${namespace}/${zone}`,
    `${refused ? "refused" : "waits"}, ${age(last, at)} ago`,
    guard || "-",
    message,
  ]);
  const rests = resting.map((group) => [
    groupPathOf(group),
    `${group.zones.length}`,
    `${group.ready}/${group.wanted}`,
    group.lastReadyAt === null ? "-" : `${age(group.lastReadyAt, at)} ago`,
  ]);
  const happened = (events ?? []).map(({ namespace, object, reason, message, at: when }) => [
    `${age(when, at)} ago`,
    `${namespace}/${object}`,
    reason,
    message,
  ]);
  const sections = [
    headLines(status, emphasize),
    needLines(needsPerson, at, emphasize),
    ...working.map((group) => groupLines(group, at, emphasize)),
    tableOf(["EVICTION", "WHEN", "GUARD", "WHY"], evictions, emphasize),
    tableOf(["VOLUME KEPT", "STATE", "SUSPENDED", "REMOVED AFTER"], (volumes ?? []).map(volumeRow(at)), emphasize),
    tableOf(["AT REST", "ZONES", "READY", "LAST POD READY"], rests, emphasize),
    tableOf(["HAPPENED", "OBJECT", "REASON", "WHAT"], happened, emphasize),
  ];
  const shown = sections.filter((lines) => lines.length > 0).map((lines) => lines.join("\n"));
  return `${shown.join("\n\n")}\n`;
}

function age(time: string, at: string): string {
  return formatSpan(Date.parse(at) - Date.parse(time));
}

function since(time: string | null, at: string): string {
  return time === null ? "" : `, for ${age(time, at)}`;
}

function headLines({ at, answeredBy, unansweredSince, leftOut }: Status, emphasize: Emphasis): readonly string[] {
  const { namespaces } = answeredBy;
  const where = namespaces === null ? "all namespaces" : `namespace ${namespaces.join(", ")}`;
  const byReason = Map.groupBy(leftOut, ({ why }) => why);
  const parts = [...byReason].map(([why, left]) => {
    const more = left.length - mostPartsNamed;
    const named = left.slice(0, mostPartsNamed).map(({ part }) => part);
    return `${emphasize("NOT SHOWN")} ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}: ${why}`;
  });
  const away = `${emphasize("NO ANSWER")} of the API server since ${unansweredSince}: all of this is as it was at ${at}`;
  return [`Status of ${where} at ${at}`, ...(unansweredSince === null ? [] : [away]), ...parts];
}

function needLines(entries: readonly PersonEntry[], at: string, emphasize: Emphasis): readonly string[] {
  if (entries.length === 0) return ["Nothing needs you."];
  const lines = entries.flatMap(({ namespace, object, guard, reason, since: began, sentence: message, todo }) => [
    `${namespace}/${object}: ${guard ?? reason}${since(began, at)}`,
    `  ${message}`,
    ...todoLines({ todo }),
  ]);
  return [emphasize(`NEEDS YOU: ${entries.length}`), ...lines];
}

function todoLines({ todo }: Pick<GuardExplanation, "todo">): readonly string[] {
  return todo === null || todo === "nothing" ? [] : [`  To do: ${todo}`];
}

function groupLines(group: GroupStatus, at: string, emphasize: Emphasis): readonly string[] {
  const { state, updated, wanted, ready, lastReadyAt, zones, functions, restarts, owner } = group;
  const last = lastReadyAt === null ? "" : `, last pod ready ${age(lastReadyAt, at)} ago`;
  const summary = `${emphasize(groupPathOf(group))}: ${state}, ${updated} of ${wanted} updated, ${ready} ready${last}`;
  const verdicts = functions.flatMap(({ function: by, recorded }) => [
    `  ${by}: ${recorded.guard}${since(recorded.since, at)}: ${recorded.sentence}`,
    ...(recorded.ends === null ? ["  this version does not know it"] : todoLines(recorded)),
  ]);
  const ofProcesses = restarts.flatMap(({ zone, pods, state: how, guard, since: began, sentence: message, todo }) => [
    `  restart of ${zone} ${pods}: ${how}${guard === null ? "" : `, ${guard}`}${since(began, at)}: ${message}`,
    ...todoLines({ todo }),
  ]);
  const headings = ["ZONE", "UPDATED", "READY", "DOWN", "REVISION", "NOW"];
  const rows = zones.map((zone) => zoneRow(zone, owner === null));
  return [summary, ...verdicts, ...ofProcesses, ...tableOf(headings, rows, emphasize)];
}

function volumeRow(at: string) {
  return ({ namespace, name, state, suspendedAt, removableAt }: VolumeStatus) => [
    `${namespace}/${name}`,
    state,
    suspendedAt === null ? "-" : `${age(suspendedAt, at)} ago`,
    removableAt ?? "-",
  ];
}

/** Pods of another owner than a StatefulSet have no revision that Sluice knows. */
function zoneRow(zone: ZoneStatus, hasRevision: boolean) {
  const { name, updated, wanted, ready, downCount, maxUnavailable, revision, paused, cells } = zone;
  const { from, to } = revision;
  const shown = cells.filter(({ cell }) => cell !== "ready");
  const more = shown.length - mostRuns;
  const runs = Map.groupBy(shown.slice(0, mostRuns), ({ cell }) => cell);
  const pods = [...runs].map(([cell, all]) => {
    const ordinals = all.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`));
    return `${cell}: ${ordinals.join(", ")}`;
  });
  const now = [...(paused ? ["paused"] : []), ...pods, ...(more > 0 ? [`and ${more} more`] : [])];
  return [
    name,
    `${updated}/${wanted}`,
    `${ready}/${wanted}`,
    `${downCount} of ${maxUnavailable}`,
    hasRevision
      ? [...(from === null ? [] : [from]), to ?? "unknown"].map((one) => one.replace(`${name}-`, "")).join(" to ")
      : "-",
    now.join("; ") || "-",
  ];
}

/** The lines that have room, each of them cut. The last row stays free, because a line break there would move the screen. */
export function fitScreen(text: string, { columns, rows }: Screen): readonly string[] {
  const lines = text.trimEnd().split("\n");
  const room = Math.max(1, rows - 1);
  const more = lines.length - room + 1;
  const shown = lines.length <= room ? lines : [...lines.slice(0, room - 1), `… ${more} more lines`];
  return shown.map((line) => cutLine(line, columns));
}

/** A character above this one may take two columns. */
const lastNarrow = "\u10ff";

function cutLine(line: string, columns: number): string {
  const widthOf = (character: string) => (character > lastNarrow && character !== "…" ? 2 : 1);
  const characters = [...line];
  if (characters.reduce((sum, one) => sum + widthOf(one), 0) <= columns) return line;
  let width = 1;
  const fitting = characters.filter((one) => {
    width += widthOf(one);
    return width <= columns;
  });
  return `${fitting.join("")}…`;
}
