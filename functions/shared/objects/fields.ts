/** What others have written, and of which nothing is known before it is read: reviews, events, the specs of budgets. */

export type Fields = Readonly<Record<string, unknown>>;

/** The fields of an object; undefined for what is none, such as a list. */
export function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}
