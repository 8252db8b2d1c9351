/** Text that must fit its place, and must not control the terminal. */
import { escapeControls } from "../../functions/shared/base/escape-control.ts";

/** Cuts the text to `width` characters, with an ellipsis for the rest. */
export function cut(given: string, width: number): string {
  const text = escapeControls(given);
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}

/** Wraps the text between words into lines of at most `width` characters. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of escapeControls(text).split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(cut(word, width));
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}
