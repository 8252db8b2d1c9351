/** What happened last, by the Events of Sluice. */
import { html } from "hono/html";
import type { Status } from "../../functions/shared/contract/status.ts";
import { type Markup, moment, nothing, section, tableOf } from "./page-parts.ts";

export function eventsOf({ events }: Status): Markup {
  if (events === null || events.length === 0) return nothing;
  const rows = events.map(
    ({ namespace, object, reason, message, at }) => html`
<tr><td>${moment(at)}</td><th scope="row">${object} <span class="quiet">${namespace}</span></th><td>${reason}</td><td>${message}</td></tr>`,
  );
  const table = tableOf("The last Events", ["UTC", "object", "reason", "what"], rows);
  return section("events", "What happened last", "", table);
}
