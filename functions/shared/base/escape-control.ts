/** Text that others wrote, where a terminal or a page shows it: it may say what it likes, and move nothing. */

/**
 * Characters that a terminal obeys, that change the order of the letters around them, or that do not show: controls (Cc),
 * formats (Cf), ends of lines and paragraphs (Zl, Zp), and the block of tags, a part of which has no category yet.
 */
const shapeless = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{e0000}-\u{e007f}]/gu;

/** A text in a sentence is cut to so many characters. */
export const shownCharacters = 60;

/**
 * The text with every character that has no shape of its own as an escape, `\u001b`, line ends among them: one line stays one
 * line. In a JSON text, the ends of whose lines are left out, it changes nothing of what is said.
 */
export function escapeControls(text: string): string {
  return text.replace(shapeless, escapeUnits);
}

/** As JSON has it: a character beyond U+FFFF is two escapes. */
function escapeUnits(character: string): string {
  return character.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
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

/** Stands in a sentence in the place of a value that may hold a password. */
export const unshown = "a text that is not shown, because it may hold a password";

/** A value that a user wrote, in a sentence: cut, and not shown at all where it looks like a URL, an account or a key. */
export function showValue(text: string): string {
  if (/:\/\/|[@?]|-----BEGIN/.test(text)) return unshown;
  return JSON.stringify(text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text);
}
