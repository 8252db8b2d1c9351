/** The most bytes that are kept of a message of an API server or a webhook, which may have any length. */
export const maxMessageBytes = 1024;

const ellipsis = "…";

/** A text of at most `maxBytes`; where it was longer it ends in `…`. No character is cut in two. */
export function cut(text: string, maxBytes = maxMessageBytes): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  let end = maxBytes - Buffer.byteLength(ellipsis);
  // A byte that goes on with a character is 10xxxxxx.
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end) + ellipsis;
}
