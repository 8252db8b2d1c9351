/** The groups of the page: those at work with all of their zones, and those at rest in one line each. */
import { html } from "hono/html";
import type { GroupStatus, ZoneStatus } from "../../functions/shared/contract/status.ts";
import { type GroupKey, groupPathOf } from "../../functions/shared/workloads/statefulsets.ts";
import { ago, guardSign, type Markup, moment, nothing, plural, section, since, todoLine } from "./page-parts.ts";
import { legend, podsOf, stateOf } from "./page-pods.ts";

export function groupsAtWork(groups: readonly GroupStatus[], at: string): Markup {
  if (groups.length === 0) return nothing;
  const cards = groups.map((group) => {
    const { namespace, group: name, state, updated, wanted, ready, lastReadyAt } = group;
    const counts = html`<b>${updated} of ${wanted} updated</b> · ${ready} ready`;
    return html`<article class="card group" id="${idOf(group)}"><div class="head"><h3>${name} <span class="quiet">${namespace}</span></h3>
<div>${counts} · ${state}${ago(lastReadyAt, at, "· last pod ready ")}</div></div>
${verdictsOf(group, at)}${restartsOf(group, at)}${bars(group)}${zonesTable(group)}</article>
`;
  });
  return section("work", "At work", plural(groups.length, "group"), html`${cards}${legend}`);
}

export function groupsAtRest(groups: readonly GroupStatus[], at: string): Markup {
  if (groups.length === 0) return nothing;
  const lines = groups.map((group) => {
    const { namespace, group: name, zones, ready, wanted, lastReadyAt } = group;
    const counts = `${plural(zones.length, "zone")}, ${ready} of ${wanted} ready`;
    return html`<li id="${idOf(group)}"><details><summary><b>${name}</b> <span class="quiet">${namespace}</span> ${counts}${ago(lastReadyAt, at, "· last pod ready ")}</summary>
${verdictsOf(group, at)}${restartsOf(group, at)}${zonesTable(group)}</details></li>
`;
  });
  return section("rest", "At rest", plural(groups.length, "group"), html`<ul class="card rest">${lines}</ul>`);
}

/** By it the script of the page knows a group again, wherever it stands then. */
const idOf = (key: GroupKey): string => `group-${groupPathOf(key)}`;

function verdictsOf({ functions }: GroupStatus, at: string): Markup {
  if (functions.length === 0) return nothing;
  const rows = functions.map(({ function: by, recorded }) => {
    const { guard, zone, ends, sentence, since: began, at: written, todo } = recorded;
    const where = sentence.includes(zone) ? nothing : html` <span class="quiet">in ${zone}</span>`;
    return html`<dt>${by}</dt><dd>${guardSign(guard, ends)}${sentence}${where}${since(began, at)} <span class="quiet">as of ${moment(written)}</span>${todoLine(todo)}</dd>`;
  });
  return html`<dl class="why">${rows}</dl>`;
}

function restartsOf({ restarts }: GroupStatus, at: string): Markup {
  if (restarts.length === 0) return nothing;
  const rows = restarts.map(({ zone, pods, state, guard, ends, sentence, since: began, todo }) => {
    const where = html`${zone} ${pods}`;
    return html`<dt>restart of ${where}</dt><dd>${state} ${guardSign(guard, ends)}${sentence}${since(began, at)}${todoLine(todo)}</dd>`;
  });
  return html`<dl class="restarts">${rows}</dl>`;
}

/** How many pods of each zone are ready on the wanted revision. */
function bars({ zones }: GroupStatus): Markup {
  const all = zones.map(({ name, updated, wanted }) => {
    const label = `${name}: ${updated} of ${wanted} updated`;
    // A zone of no pods has all of them.
    const [value, max] = wanted === 0 ? [1, 1] : [updated, wanted];
    return html`<progress max="${max}" value="${value}" aria-label="${label}" title="${label}"></progress>`;
  });
  return html`<div class="bars">${all}</div>`;
}

function zonesTable({ group, zones, owner }: GroupStatus): Markup {
  const head = ["zone, revision", "pods, by ordinal", "updated", "ready", "down, limit", "now"];
  const columns = head.map((title) => html`<th scope="col">${title}</th>`);
  return html`<div class="wide" role="group" aria-label="Zones of ${group}" tabindex="0"><table><caption class="hidden">Zones of ${group}</caption><thead><tr>${columns}</tr></thead><tbody>${zones.map((zone) => zoneRow(zone, owner))}</tbody></table></div>`;
}

/** Pods of another owner than a StatefulSet have no revision that Sluice knows. */
function zoneRow(zone: ZoneStatus, owner: GroupStatus["owner"]): Markup {
  const { name, revision, wanted, updated, ready, downCount, maxUnavailable } = zone;
  const from = revision.from === null ? "" : `${revision.from} → `;
  const shown = owner === null ? `${from}${revision.to ?? "not known yet"}` : owner;
  return html`
<tr><th scope="row">${name}<small>${shown}</small></th><td>${podsOf(zone, owner === null)}</td><td>${updated} of ${wanted}</td><td>${ready} of ${wanted}</td><td>${downCount} of ${maxUnavailable}</td><td>${stateOf(zone)}</td></tr>`;
}
