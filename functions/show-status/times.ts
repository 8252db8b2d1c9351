/** Times as the status prints them. */

/** RFC 3339 in UTC; null where nothing shows the time. */
export function formatTime(ms: number): string;
export function formatTime(ms: number | undefined): string | null;
export function formatTime(ms: number | undefined): string | null {
  // Clients write times, and a Date of a time beyond its range cannot be formatted.
  const largestMs = 8.64e15;
  return ms === undefined || Number.isNaN(ms) ? null : new Date(Math.min(ms, largestMs)).toISOString();
}
