/** The page of the status: complete as it is sent, without script, and without anything that could be pressed. */
import { html } from "hono/html";
import type { GroupStatus, PersonEntry, Status } from "../../functions/shared/contract/status.ts";
import { scriptAsset, styleAsset } from "./assets.ts";
import { eventsOf } from "./page-events.ts";
import { groupsAtRest, groupsAtWork } from "./page-groups.ts";
import { guardSign, type Markup, moment, nothing, plural, section, since, todoLine } from "./page-parts.ts";
import { volumesOf } from "./page-volumes.ts";
import { evictionsThatWait } from "./page-waiting.ts";

/** More would take too long to be read out. */
const mostNews = 3;

/** The whole document. All links are relative, because a proxy may have put a path before it. */
export async function renderPage(status: Status): Promise<string> {
  const { at, groups, unansweredSince } = status;
  const working = groups.filter(({ state }) => state !== "idle");
  const resting = groups.filter(({ state }) => state === "idle");
  const page = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>${titleOf(status, working.length)}</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="./${styleAsset.path}"><script type="module" src="./${scriptAsset.path}"></script></head>
<body class="${unansweredSince === null ? "" : "stale"}"><div class="wrap">
${headerOf(status, newsOf(status, working))}<main>
${unansweredOf(status)}${leftOutOf(status)}${needsOf(status)}${groupsAtWork(working, at)}
${evictionsThatWait(status)}${volumesOf(status)}${groupsAtRest(resting, at)}${eventsOf(status)}</main>
<footer><span>Read only: it has no button, and no right to write.</span> <a href="?format=json">the same as JSON</a> <span>answered by ${status.answeredBy.replica}</span></footer>
</div></body></html>
`;
  return String(await page);
}

function titleOf({ needsPerson, unansweredSince }: Status, atWork: number): string {
  if (unansweredSince !== null) return "? no answer of the API server · Sluice";
  if (needsPerson.length > 0) return `! ${needsOfYou(needsPerson)} · Sluice`;
  return atWork > 0 ? `${plural(atWork, "group")} at work · Sluice` : "all at rest · Sluice";
}

/** What a screen reader gets when it changes. */
function newsOf({ needsPerson, unansweredSince }: Status, working: readonly GroupStatus[]): string {
  if (unansweredSince !== null) return "The API server does not answer.";
  const groups = working.map(({ group, updated, wanted }) => `${group}: ${updated} of ${wanted} updated`);
  const needs = needsPerson.length === 0 ? "Nothing needs you" : needsOfYou(needsPerson);
  return `${[needs, ...groups.slice(0, mostNews)].join("; ")}.`;
}

const needsOfYou = ({ length }: readonly PersonEntry[]) => `${length} ${length === 1 ? "needs" : "need"} you`;

function headerOf({ at, answeredBy }: Status, news: string): Markup {
  const { replica, version, mode, namespaces } = answeredBy;
  const where = namespaces === null ? "all namespaces" : `namespaces ${namespaces.join(", ")}`;
  const does = mode === "act" ? "it acts" : "it is a shadow, and writes nothing";
  const facts = [where, does, `version ${version}`, `replica ${replica}`].map((fact) => html`<li>${fact}</li>`);
  return html`<header class="top"><h1>Sluice</h1><ul class="facts">${facts}</ul><p class="fresh">as of ${moment(at)}</p><div class="live" id="live" data-news="${news}"></div></header>
`;
}

function unansweredOf({ at, unansweredSince }: Status): Markup {
  if (unansweredSince === null) return nothing;
  return html`<p class="card away" role="alert">The API server has not answered since ${moment(unansweredSince)}. All of this is as it was at ${moment(at)}.</p>
`;
}

function leftOutOf({ at, leftOut }: Status): Markup {
  if (leftOut.length === 0) return nothing;
  const lines = leftOut.map(({ part, why, since: began }) => html`<li><b>${part}</b>: ${why}${since(began, at)}</li>`);
  return section("left-out", "Not shown", plural(leftOut.length, "part"), html`<ul class="card plain">${lines}</ul>`);
}

function needsOf({ at, needsPerson }: Status): Markup {
  if (needsPerson.length === 0) return section("needs", "Needs you", "", html`<p class="quiet">Nothing needs you.</p>`);
  const entries = needsPerson.map((entry) => needOf(entry, at));
  return section("needs", "Needs you", String(needsPerson.length), html`<ol class="needs">${entries}</ol>`);
}

function needOf({ reason, namespace, object, since: began, guard, sentence, todo }: PersonEntry, at: string): Markup {
  // A guard that only a person ends says itself why it is here.
  const why =
    reason === "guard" || reason === (guard ?? reason) ? nothing : html` <span class="quiet">${reason}</span>`;
  return html`<li class="card need"><div><b>${object}</b> ${guardSign(guard ?? reason, "person")}<span class="quiet">${namespace}</span>${why}${since(began, at)}</div>
<p>${sentence}</p>${todoLine(todo)}</li>
`;
}
