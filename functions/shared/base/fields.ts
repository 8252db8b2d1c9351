/** Reads JSON of other authors, whose shape is unknown: reviews, events, specs of budgets. */

import { latestMs } from "../clock/durations.ts";

export type Fields = Readonly<Record<string, unknown>>;

/** True for whole milliseconds since the epoch that have a date, because messages show a time as a date. */
export function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= latestMs;
}

/** The fields of an object; undefined for any other value, such as a list. */
export function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

/** The fields of an object in JSON; undefined for another text. */
export function parseFields(text: string): Fields | undefined {
  try {
    return fieldsOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}
