/** What others have written, and of which nothing is known before it is read: reviews, events, the specs of budgets. */

export type Fields = Readonly<Record<string, unknown>>;

/** The last moment that has a date, because messages show a time as its date. */
const latestMs = 8.64e15;

/** True for a moment in whole milliseconds since the epoch. */
export function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= latestMs;
}

/** The fields of an object; undefined for what is none, such as a list. */
export function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}
