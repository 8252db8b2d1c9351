/** Parsers of the fields of claims: undefined for anything that is not what the field must be. */

import { longestObjectName } from "../base/dns-names.ts";
import { fieldsOf } from "../base/fields.ts";

/** No claim has a longer text in a field that is read here. */
export const isNonEmptyName = (value: unknown): value is string => isShort(value) && value !== "";

export const isNames = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every(isNonEmptyName);

export function isShort(value: unknown): value is string {
  return typeof value === "string" && value.length <= longestObjectName;
}

/** A parser of one kind of value: undefined for anything else. */
export function only<T>(isValue: (value: unknown) => value is T): (value: unknown) => T | undefined {
  return (value) => (isValue(value) ? value : undefined);
}

/** A table whose keys are object names, and each of whose values is as `isValue` wants it. */
export function parseTable<Value>(
  value: unknown,
  isValue: (value: unknown) => value is Value,
): Readonly<Record<string, Value>> | undefined {
  const fields = fieldsOf(value);
  if (fields === undefined) return undefined;
  const isTable = Object.entries(fields).every(([name, one]) => isNonEmptyName(name) && isValue(one));
  return isTable ? (fields as Readonly<Record<string, Value>>) : undefined;
}
