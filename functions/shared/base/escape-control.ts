/** Escapes text of other authors, so that it cannot control the terminal or the page that shows it. */

/**
 * Characters that a terminal obeys, that change the order of the letters around them, or that do not show: controls (Cc),
 * formats (Cf), ends of lines and paragraphs (Zl, Zp), and the block of tags, a part of which has no category yet.
 */
const shapeless = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{e0000}-\u{e007f}]/gu;

/** The most characters of a value that a message shows. */
export const shownCharacters = 60;

/**
 * The text with an escape such as `\u001b` for every character without a shape. Line ends are escaped as well, so that the text
 * stays on a single line. JSON without line ends keeps its meaning.
 */
export function escapeControls(text: string): string {
  return text.replace(shapeless, escapeUnits);
}

/** As in JSON, a character beyond U+FFFF becomes two escapes. */
function escapeUnits(character: string): string {
  return character.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Like {@link escapeControls}, but line ends stay. */
export function escapeLines(text: string): string {
  return text.split("\n").map(escapeControls).join("\n");
}

/** Applies {@link escapeControls} to every text in a value of objects, lists and texts. */
export function escapeTexts<T>(value: T): T {
  if (typeof value === "string") return escapeControls(value) as T;
  if (Array.isArray(value)) return value.map(escapeTexts) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, escapeTexts(one)])) as T;
}

/** Stands in a message in place of a value that may hold a password. */
export const unshown = "a text that is not shown, because it may hold a password";

/** A value that a user wrote, for a message: cut, and not shown at all where it looks like a URL, an account or a key. */
export function showValue(text: string): string {
  if (/:\/\/|[@?]|-----BEGIN/.test(text)) return unshown;
  return JSON.stringify(text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text);
}
