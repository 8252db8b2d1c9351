/** Parses JSON of any client. JSON that is nested too deep, or has too many values, is refused before it is parsed. */

/** Objects and lists in one another. The deepest that Kubernetes sends is a schema in a CRD, some thirty. */
export const deepestJson = 100;
/** A review or an event has some hundred values; each costs up to a hundred bytes in memory, however few it took to send. */
export const mostJsonValues = 100_000;

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openList, closeList, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d];

/** The value of a body, which is undefined if there are only blanks; or why it is refused, as the end of a message. */
export function parseBoundedJson(body: Buffer): { readonly value: unknown } | { readonly because: string } {
  // Nearly all bodies are short. They are decoded before the search, because text is searched faster than bytes.
  const short = body.length <= mostJsonValues ? body.toString("utf8") : undefined;
  const because = short !== undefined && opensFew(short) ? undefined : refuse(body);
  if (because !== undefined) return { because };
  const text = short ?? body.toString("utf8");
  try {
    return { value: text.trim() === "" ? undefined : JSON.parse(text) };
  } catch {
    return { because: "the body is not JSON" };
  }
}

/** True if there are no more opening brackets than the allowed depth, so that the text cannot be too deep. */
function opensFew(text: string): boolean {
  let opened = 0;
  for (const bracket of ["{", "["]) {
    for (let at = text.indexOf(bracket); at >= 0; at = text.indexOf(bracket, at + 1)) {
      if (++opened > deepestJson) return false;
    }
  }
  return true;
}

/** Counts brackets and commas outside strings. The parser finds out whether the text is JSON at all. */
function refuse(body: Buffer): string | undefined {
  let [depth, values] = [0, 0];
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (byte === quote) at = endOfString(body, at);
    else if (byte === comma) values++;
    else if (byte === closeList || byte === closeObject) depth--;
    else if (byte === openList || byte === openObject) {
      values++;
      depth++;
      if (depth > deepestJson) return `the body is nested more than ${deepestJson} deep`;
    }
  }
  return values > mostJsonValues ? `the body holds more than ${mostJsonValues} values` : undefined;
}

/** Index of the quote that ends the string; the end of the body if there is none. */
function endOfString(body: Buffer, start: number): number {
  let at = start + 1;
  while (at < body.length && body[at] !== quote) at += body[at] === backslash ? 2 : 1;
  return at;
}
