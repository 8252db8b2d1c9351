/** The volumes that stay after their pods. */
import { html } from "hono/html";
import type { Status } from "../../functions/shared/contract/status.ts";
import { ago, type Markup, nothing, plural, section, tableOf, until } from "./page-parts.ts";

export function volumesOf({ at, volumes }: Status): Markup {
  if (volumes === null || volumes.length === 0) return nothing;
  const rows = volumes.map(({ namespace, name, zone, state, suspendedAt, removableAt }) => {
    const removal = removableAt === null ? html`at no known time` : until(removableAt, at);
    return html`
<tr><th scope="row">${name} <span class="quiet">${namespace}</span></th><td>${zone ?? nothing}</td><td>${state}${ago(suspendedAt, at)}</td><td>${removal}</td></tr>`;
  });
  const table = tableOf("Volumes kept", ["volume claim", "zone", "state", "may be removed"], rows);
  return section("volumes", "Volumes kept", plural(volumes.length, "volume"), table);
}
