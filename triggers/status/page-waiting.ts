/** The evictions that wait: those that the answering process parks, and what Events report of all processes. */
import { html } from "hono/html";
import type { Status } from "../../functions/shared/contract/status.ts";
import { ago, guardSign, type Markup, nothing, section, since, tableOf } from "./page-parts.ts";

export function evictionsThatWait(status: Status): Markup {
  return html`${parkedOf(status)}${reportedOf(status)}`;
}

function parkedOf({ at, answeredBy, parked }: Status): Markup {
  if (parked.length === 0) return nothing;
  const rows = parked.map(
    ({ namespace, group, pod, node, place, guard, sentence, since: began }) => html`
<tr><td>${place}</td><th scope="row">${pod} <span class="quiet">${namespace}</span></th><td>${group}</td><td>${node ?? nothing}${since(began, at)}</td><td>${guardSign(guard, "")}${sentence}</td></tr>`,
  );
  const table = tableOf("Evictions that wait here", ["place", "pod", "group", "node", "why"], rows);
  return section("parked", `Evictions that wait at ${answeredBy.replica}`, String(parked.length), table);
}

function reportedOf({ at, waiting }: Status): Markup {
  if (waiting === null || waiting.length === 0) return nothing;
  const rows = waiting.map(
    ({ namespace, zone, guard, sentence, at: last, refused }) => html`
<tr><th scope="row">${zone}</th><td>${namespace}</td><td>${refused ? "refused" : "waits"}${ago(last, at)}</td><td>${guardSign(guard, "")}${sentence}</td></tr>`,
  );
  const table = tableOf("Evictions that wait", ["zone", "namespace", "when", "why"], rows);
  return section("evictions", "Evictions that wait", `at least ${waiting.length}`, table);
}
