/**
 * Compares the page with the JSON, leaf by leaf: each leaf stands in the element that shows its item. A leaf for which nothing is
 * stated here must stand there as it is.
 */
import assert from "node:assert/strict";
import type { Cell, Status } from "../../functions/shared/contract/status.ts";
import { PageElement } from "./page-elements.ts";

/** An object of the document, and those around it, the nearest first. */
type Around = readonly Readonly<Record<string, unknown>>[];
type Item = Readonly<Record<string, unknown>>;

/** Above this many pods a zone is shown in words. */
const mostSigns = 120;

const rowsOf = (page: PageElement, section: string): PageElement[] =>
  page
    .all("section")
    .filter((one) => one.attributes["aria-labelledby"] === section)
    .flatMap(bodyRows);
/** Each term of a list with what it says about it, as one element. */
function termsOf(list: PageElement): readonly PageElement[] {
  const descriptions = list.all("dd");
  return list.all("dt").map((term, index) => {
    const both = new PageElement("div", {});
    both.children.push(term, descriptions[index] ?? assert.fail());
    return both;
  });
}
const bodyRows = (scope: PageElement) => scope.all("tbody").flatMap((body) => body.all("tr"));

/** The elements that show the items of a list, in the order of the list. */
const places: Readonly<Record<string, (scope: PageElement) => readonly PageElement[]>> = {
  needsPerson: (page) => page.all("li.need"),
  // At work first, as in the document, and then those at rest.
  groups: (page) => [...page.all("article"), ...page.all("ul.rest").flatMap((list) => list.all("li"))],
  "groups.zones": bodyRows,
  "groups.functions": (group) => group.all("dl.why").flatMap(termsOf),
  "groups.restarts": (group) => group.all("dl.restarts").flatMap(termsOf),
  waiting: (page) => rowsOf(page, "evictions"),
  events: (page) => rowsOf(page, "events"),
  parked: (page) => rowsOf(page, "parked"),
  volumes: (page) => rowsOf(page, "volumes"),
  leftOut: (page) =>
    page
      .all("section")
      .filter((one) => one.attributes["aria-labelledby"] === "left-out")
      .flatMap((one) => one.all("li")),
};

/** Lists whose items have no element of their own: what shows the list shows them all. */
const together = ["answeredBy.namespaces", "groups.zones.cells"];

const meanings: Readonly<Record<Cell, string>> = {
  ready: "ready on the wanted revision",
  outdated: "ready on another revision",
  reserved: "reserved, may go at any moment",
  claimed: "claimed, may go at any moment",
  terminating: "terminating",
  "not ready": "not ready",
  missing: "missing",
};

const colours: Readonly<Record<string, string>> = { person: "bad", depends: "wait", itself: "go" };

type Check = (value: never, scope: PageElement, around: Around) => boolean;

const hasText = (scope: PageElement, text: string) => scope.text.includes(text);
const columnOf = (row: PageElement, column: number) => row.all("td")[column - 1]?.text ?? "";
const isAtRest = ([group]: Around) => group?.state === "idle";

/** The leaves that the page presents otherwise, with how. */
const otherwise: Readonly<Record<string, Check>> = {
  "answeredBy.mode": (mode: string, page) =>
    hasText(page, mode === "act" ? "it acts" : "it is a shadow, and writes nothing"),
  // Why an entry is there is named by its guard, unless the guard alone does not say it.
  "needsPerson.reason": (reason: string, entry, [need]) =>
    reason === "guard" ? need?.guard !== null : hasText(entry, reason),
  // Groups at rest stand in a list of their own.
  "groups.state": (state: string, group) => (state === "idle" ? group.tag === "li" : hasText(group, `· ${state}`)),
  "groups.wanted": (wanted: number, group, [item]) =>
    hasText(group, `${item?.ready} of ${wanted} ready`) || hasText(group, `${item?.updated} of ${wanted} updated`),
  // A group at rest has updated all.
  "groups.updated": (updated: number, group, around) =>
    isAtRest(around) ? updated === around[0]?.wanted : hasText(group, `${updated} of ${around[0]?.wanted} updated`),
  "groups.ready": (ready: number, group, around) =>
    hasText(group, isAtRest(around) ? `${ready} of ${around[0]?.wanted} ready` : `${ready} ready`),
  "groups.zones.wanted": (wanted: number, row) => columnOf(row, 2).endsWith(` of ${wanted}`),
  "groups.zones.updated": (updated: number, row) => columnOf(row, 2).startsWith(`${updated} of `),
  "groups.zones.ready": (ready: number, row) => columnOf(row, 3).startsWith(`${ready} of `),
  "groups.zones.downCount": (down: number, row) => columnOf(row, 4).startsWith(`${down} of `),
  "groups.zones.maxUnavailable": (most: number, row) => columnOf(row, 4).endsWith(` of ${most}`),
  "groups.zones.outdated": (count: number, row) =>
    columnOf(row, 5).split(", ").includes(`${count} outdated`) === count > 0,
  "groups.zones.paused": (paused: boolean, row) => columnOf(row, 5).split(", ").includes("paused") === paused,
  "groups.zones.cells.first": (first: number, row, [run, zone, group]) => hasPod(row, { zone, group, run }, first),
  "groups.zones.cells.last": (last: number, row, [run, zone, group]) => hasPod(row, { zone, group, run }, last),
  "groups.zones.cells.cell": (cell: Cell, row, [run]) =>
    [row.text, ...row.values("aria-label")].some((text) => text.includes(`${ordinalsOf(run)} ${meanings[cell]}`)),
  // The colour of the guard.
  "groups.functions.recorded.ends": (ends: string, verdict, [recorded]) =>
    recorded?.guard === "" || verdict.all(`span.${colours[ends]}`).length === 1,
  "groups.restarts.ends": (ends: string, entry) => entry.all(`span.${colours[ends]}`).length === 1,
  "waiting.refused": (refused: boolean, row) => columnOf(row, 2).startsWith(refused ? "refused" : "waits"),
};

/** How the page presents null: by these words, or by leaving it out. */
const absent: Readonly<Record<string, Check>> = {
  unansweredSince: (_: null, page) => page.all("p.away").length === 0,
  "answeredBy.namespaces": (_: null, page) => hasText(page, "all namespaces"),
  "needsPerson.guard": (_: null, entry, [need]) =>
    entry.all("span.guard").some((sign) => hasText(sign, String(need?.reason))),
  "needsPerson.since": (_: null, entry) => entry.all("time").length === 0,
  "needsPerson.todo": (_: null, entry) => entry.all("p.todo").length === 0,
  "groups.lastReadyAt": (_: null, group) => !hasText(group, "last pod ready"),
  "groups.functions.recorded.ends": (_: null, verdict) => hasText(verdict, "this version does not know it"),
  "groups.functions.recorded.todo": (_: null, verdict) => verdict.all("p.todo").length === 0,
  "groups.owner": (_: null, group, [item]) => zonesOf(item).every((zone) => hasText(group, shownRevision(zone))),
  "groups.restarts.guard": (_: null, entry) => entry.all("span.guard").length === 0,
  "groups.restarts.since": (_: null, entry) => entry.all("time").length === 0,
  "groups.restarts.ends": (_: null, entry) => entry.all("span.guard").length === 0,
  "groups.restarts.todo": (_: null, entry) => entry.all("p.todo").length === 0,
  "groups.zones.revision.from": (_: null, row) => !hasText(row.one("th"), "→"),
  // Pods of another owner have no revision.
  "groups.zones.revision.to": (_: null, row, [, , group]) =>
    hasText(row.one("th"), "not known yet") === (group?.owner === null),
  "parked.node": (_: null, row) => columnOf(row, 3).startsWith(" for "),
  "volumes.zone": (_: null, row) => columnOf(row, 1) === "",
  "volumes.suspendedAt": (_: null, row) => !hasText(row, " ago"),
  "volumes.removableAt": (_: null, row) => columnOf(row, 3) === "at no known time",
  waiting: (_: null, page) => rowsOf(page, "evictions").length === 0,
  events: (_: null, page) => rowsOf(page, "events").length === 0,
  volumes: (_: null, page) => rowsOf(page, "volumes").length === 0,
};

const zonesOf = (group: Item | undefined) =>
  (group?.zones ?? []) as readonly Status["groups"][number]["zones"][number][];
const shownRevision = ({ revision: { to } }: { readonly revision: { readonly to: string | null } }) =>
  to ?? "not known yet";

const ordinalsOf = (run: Item | undefined) =>
  run?.first === run?.last ? `${run?.first}` : `${run?.first} to ${run?.last}`;

/** Each pod has a sign that names it, unless the zone is shown in words. */
function hasPod(
  row: PageElement,
  { zone, group, run }: Readonly<Record<"zone" | "group" | "run", Item | undefined>>,
  ordinal: number,
): boolean {
  const cells = (zone?.cells ?? []) as readonly { readonly first: number; readonly last: number }[];
  if (cells.reduce((sum, { first, last }) => sum + last - first + 1, 0) > mostSigns)
    return row.all("span.runs").some((runs) => hasText(runs, `${ordinalsOf(run)} `));
  const pod = group?.owner === null ? `${zone?.name}-${ordinal}` : `${zone?.name}, pod ${ordinal}`;
  return row.all("i").some(({ attributes: { title } }) => title === `${pod}: ${meanings[run?.cell as Cell]}`);
}

const isTime = (text: string) => /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text);

/** Leaves that the page shows as they are. */
function isPlain(value: unknown, scope: PageElement): boolean {
  if (typeof value === "number") return scope.texts.some((text) => text.split(" ").includes(String(value)));
  if (typeof value !== "string") return false;
  if (isTime(value)) return scope.all("time").some(({ attributes }) => attributes.datetime === value);
  // "nothing" stands for a guard with no todo.
  if (value === "nothing") return scope.all("p.todo").length === 0;
  return hasText(scope, value);
}

/** Names every leaf of the status that the page does not show. */
export function missingIn(page: PageElement, status: Status): string[] {
  const missing: string[] = [];
  const visit = (value: unknown, path: string, scope: PageElement, around: Around): void => {
    if (Array.isArray(value)) {
      visitList(value, path, scope, around);
      return;
    }
    if (typeof value === "object" && value !== null) {
      for (const [key, one] of Object.entries(value))
        visit(one, path === "" ? key : `${path}.${key}`, scope, [value as Item, ...around]);
      return;
    }
    const check = value === null ? absent[path] : otherwise[path];
    const isShown = check === undefined ? isPlain(value, scope) : check(value as never, scope, around);
    if (!isShown) missing.push(`${path}: ${String(value)}`);
  };
  const visitList = (items: readonly unknown[], path: string, scope: PageElement, around: Around): void => {
    const place = places[path];
    if (place === undefined && !together.includes(path)) missing.push(`${path} has no place`);
    const elements = place?.(scope);
    if (elements !== undefined && elements.length !== items.length)
      missing.push(`${path}: ${items.length} items, and ${elements.length} elements`);
    for (const [index, item] of items.entries()) visit(item, path, elements?.[index] ?? scope, around);
  };
  visit(status, "", page, []);
  return missing;
}
