/**
 * Limits of lists and maps that other clients write: in an annotation, a label selector or a budget. The cost of a reconcile
 * must not grow with the size of a field times the number of objects. What Sluice writes itself has limits of its own.
 */

export const mostEntries = 100;
export const mostBytes = 4_096;

/** True for a text of more than 4 KiB. */
export function isTooLong(text: string): boolean {
  // No character of UTF-16 takes more than three bytes of UTF-8: most texts need not be counted.
  return text.length > mostBytes || (3 * text.length > mostBytes && Buffer.byteLength(text) > mostBytes);
}

/** What is too large about these keys and values, for a message; undefined if nothing is. */
export function describeExcess(entries: readonly (readonly [string, unknown])[]): string | undefined {
  if (entries.length > mostEntries) return `has ${entries.length} entries: write at most ${mostEntries}`;
  return describeBytes(entries);
}

/** The same for the number of bytes alone. */
export function describeBytes(entries: readonly (readonly [string, unknown])[]): string | undefined {
  const bytes = entries.reduce((sum, [key, value]) => sum + bytesOf(key) + bytesOf(value), 0);
  return bytes > mostBytes ? `has ${bytes} bytes: write at most ${mostBytes}` : undefined;
}

function bytesOf(value: unknown): number {
  return typeof value === "string" ? Buffer.byteLength(value) : 0;
}
