/** Small parts of the page. Each value of the status goes through the template tag, which escapes it. */
import { html } from "hono/html";
import { formatSpan } from "../plugin/span.ts";

export type Markup = ReturnType<typeof html>;

export const nothing = html``;

/** A moment, as the clock of UTC shows it. */
export function moment(time: string): Markup {
  return html`<time datetime="${time}" title="${time}">${time.replace(/^.*T(.{8}).*$/s, "$1")} UTC</time>`;
}

/** How long something has lasted when the status was read. The moment when it began stands in the attributes. */
export function since(time: string | null, at: string): Markup {
  return time === null ? nothing : html` <span class="quiet">for ${span(time, at)}</span>`;
}

/** How long before the status was read something happened, after a text that says what. */
export function ago(time: string | null, at: string, what = ""): Markup {
  return time === null ? nothing : html` <span class="quiet">${what}${span(time, at)} ago</span>`;
}

/** How long after the status was read something may happen. */
export function until(time: string, at: string): Markup {
  const isPast = Date.parse(time) <= Date.parse(at);
  return isPast ? html`since ${span(time, at)}` : html`in ${span(at, time, time)}`;
}

/** The time from one moment to another. `time` stands in the attributes: the first one unless told. */
function span(from: string, to: string, time = from): Markup {
  const text = formatSpan(Date.parse(to) - Date.parse(from));
  return html`<time datetime="${time}" title="${time}">${text}</time>`;
}

/** `ends` chooses the colour: what needs a person differs from what may need one. Null: this version does not know the guard. */
export function guardSign(guard: string | null, ends: string | null): Markup {
  if (guard === null || guard === "") return nothing;
  const colour = { person: "bad", depends: "wait", itself: "go" }[ends ?? ""] ?? "";
  const unknown = ends === null ? html` <span class="quiet">this version does not know it</span>` : nothing;
  return html`<span class="guard ${colour}">${guard}</span>${unknown} `;
}

/** A command can be selected with one click. */
export function todoLine(todo: string | null): Markup {
  if (todo === null || todo === "nothing") return nothing;
  const text = todo.startsWith("kubectl ") ? html`<code class="command">${todo}</code>` : html`<span>${todo}</span>`;
  return html`<p class="todo"><span class="quiet">to do:</span> ${text}</p>`;
}

/** A part of the page with a heading. */
export function section(id: string, title: string, count: string, contents: Markup): Markup {
  const shown = count === "" ? nothing : html` <span class="count">· ${count}</span>`;
  return html`<section aria-labelledby="${id}"><h2 id="${id}">${title}${shown}</h2>${contents}</section>
`;
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function tableOf(caption: string, head: readonly string[], rows: readonly Markup[]): Markup {
  const columns = head.map((title) => html`<th scope="col">${title}</th>`);
  return html`<div class="card wide" role="group" aria-label="${caption}" tabindex="0"><table><caption class="hidden">${caption}</caption><thead><tr>${columns}</tr></thead><tbody>${rows}</tbody></table></div>`;
}
