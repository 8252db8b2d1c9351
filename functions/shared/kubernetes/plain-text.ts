/** Text that others wrote, where a terminal or a page shows it: it may say what it likes, and move nothing. */

/** What a terminal obeys, and what changes the order of the letters around it: none of them has a shape of its own. */
const moving = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/**
 * The text with every control and direction character as an escape, `\u001b`, line ends among them: one line stays one line. In a
 * JSON text, the ends of whose lines are left out, it changes nothing of what is said.
 */
export function escapeControls(text: string): string {
  return text.replace(moving, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The same of a text of several lines, whose ends stay. */
export function escapeLines(text: string): string {
  return text.split("\n").map(escapeControls).join("\n");
}

/** The same of every text in a value that is made of objects, lists and texts. */
export function escapeTexts<T>(value: T): T {
  if (typeof value === "string") return escapeControls(value) as T;
  if (Array.isArray(value)) return value.map(escapeTexts) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, escapeTexts(one)])) as T;
}
