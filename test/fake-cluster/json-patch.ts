/** JSON patches (RFC 6902) as admission webhooks answer them: `add` and `replace` in objects, because tests need no more. */

import { isObject } from "./merge-patch.ts";

interface Operation {
  readonly op: string;
  readonly path: string;
  readonly value?: unknown;
}

/**
 * Returns a changed copy of `document`.
 *
 * @throws Error with the API server's message for a path that leads nowhere.
 */
export function applyJsonPatch<T extends object>(document: T, operations: readonly Operation[]): T {
  const patched = structuredClone(document);
  for (const { op, path, value } of operations) {
    if (op !== "add" && op !== "replace") throw new Error(`the embedded world knows no JSON patch with "${op}"`);
    const keys = path
      .split("/")
      .slice(1)
      .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
    const last = keys.pop();
    const parent = keys.reduce<unknown>((object, key) => (isObject(object) ? object[key] : undefined), patched);
    if (last === undefined || !isObject(parent) || (op === "replace" && !(last in parent))) {
      throw new Error(`${op} operation does not apply: doc is missing path: "${path}": missing value`);
    }
    (parent as Record<string, unknown>)[last] = value;
  }
  return patched;
}
