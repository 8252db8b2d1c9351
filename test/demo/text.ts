/** Text that must fit, and that moves nothing on the screen. */
import { escapeControls } from "../../functions/shared/base/escape-control.ts";

/** At most `width` characters; what is cut off is shown by an ellipsis. */
export function cut(given: string, width: number): string {
  const text = escapeControls(given);
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}

/** Lines of at most `width` characters, broken between words. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of escapeControls(text).split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(cut(word, width));
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}
