/** The pods of a zone: a sign for each, in the order of ordinals, or runs in words where there are many. */
import { html } from "hono/html";
import type { Cell, ZoneStatus } from "../../functions/shared/contract/status.ts";
import { type Markup, nothing } from "./page-parts.ts";

interface Sign {
  /** Of the style. */
  readonly name: string;
  /** Empty where all is well: a circle. */
  readonly letter: string;
  readonly meaning: string;
}

const signs: Readonly<Record<Cell, Sign>> = {
  ready: { name: "new", letter: "", meaning: "ready on the wanted revision" },
  outdated: { name: "old", letter: "", meaning: "ready on another revision" },
  reserved: { name: "reserved", letter: "R", meaning: "reserved, may go at any moment" },
  claimed: { name: "claimed", letter: "C", meaning: "claimed, may go at any moment" },
  terminating: { name: "going", letter: "×", meaning: "terminating" },
  "not ready": { name: "unready", letter: "!", meaning: "not ready" },
  missing: { name: "missing", letter: "–", meaning: "missing" },
};

/** Above this many pods a zone is shown in words. */
const mostSigns = 120;

export const legend = html`<ul class="legend" aria-label="What the signs mean">${Object.values(signs).map(
  ({ name, letter, meaning }) =>
    html`<li><span class="pods" aria-hidden="true"><i class="${name}">${letter}</i></span>${meaning}</li>`,
)}</ul>
`;

/** Pods of another owner than a StatefulSet are counted, because their names have no ordinals. */
export function podsOf({ name, cells }: ZoneStatus, isNamedByOrdinal: boolean): Markup {
  const count = cells.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  const runs = cells.map(({ first, last, cell }) => {
    const ordinals = first === last ? String(first) : `${first} to ${last}`;
    return `${ordinals} ${signs[cell].meaning}`;
  });
  const text = runs.join(", ");
  if (count > mostSigns) return html`<span class="runs">${text}</span>`;
  if (count === 0) return html`<span class="quiet">none</span>`;
  const shown = cells.flatMap(({ first, last, cell }) =>
    Array.from({ length: last - first + 1 }, (_, index) => {
      const { name: sign, letter, meaning } = signs[cell];
      return html`<i class="${sign}" title="${name}${isNamedByOrdinal ? "-" : ", pod "}${first + index}: ${meaning}">${letter}</i>`;
    }),
  );
  return html`<div class="pods" role="img" aria-label="${text}">${shown}</div>`;
}

/** How many pods of a zone are in each state that is not well. Of another revision are also some that are down. */
export function stateOf({ paused, outdated, cells }: ZoneStatus): Markup {
  const counts = new Map<Cell, number>();
  for (const { first, last, cell } of cells) counts.set(cell, (counts.get(cell) ?? 0) + last - first + 1);
  counts.delete("ready");
  if (outdated > 0) counts.set("outdated", outdated);
  const parts = [...counts].map(([cell, count]) => `${count} ${cell}`);
  const all = [...(paused ? ["paused"] : []), ...parts];
  return all.length === 0 ? nothing : html`${all.join(", ")}`;
}
