/** JSON merge patches (RFC 7396) of immutable objects, and the equality that shows whether a patch changes anything. */

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Deep equality of JSON values; the order of keys does not matter. */
export function jsonEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false;
    for (let index = 0; index < a.length; index++) if (!jsonEqual(a[index], b[index])) return false;
    return true;
  }
  if (Array.isArray(b)) return false;
  const left = a as JsonObject;
  const right = b as JsonObject;
  let count = 0;
  for (const key in left) {
    if (left[key] === undefined) continue;
    count++;
    if (!jsonEqual(left[key], right[key])) return false;
  }
  for (const key in right) if (right[key] !== undefined) count--;
  return count === 0;
}

/**
 * Returns `target` with `patch` applied. Unchanged parts are shared with `target`. If nothing changes, the result is `target`
 * itself, so that a caller recognises a patch without effect by identity.
 */
export function applyMergePatch<T>(target: T, patch: unknown): T {
  return merge(target, patch) as T;
}

function merge(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return jsonEqual(target, patch) ? target : patch;
  const base: JsonObject = isObject(target) ? target : {};
  let result: Record<string, unknown> | undefined = base === target ? undefined : {};
  for (const key of Object.keys(patch)) {
    const value = patch[key];
    if (value === undefined) continue;
    const before = base[key];
    if (value === null) {
      if (before === undefined) continue;
      result ??= { ...base };
      delete result[key];
      continue;
    }
    const after = merge(before, value);
    if (after === before) continue;
    result ??= { ...base };
    result[key] = after;
  }
  return result ?? target;
}

/**
 * Returns `after`, with the parts that equal `before` shared; `before` itself if all of it is equal. An undefined field counts
 * as absent.
 */
export function sharing<T>(before: unknown, after: T): T {
  if (!isObject(before) || !isObject(after)) return jsonEqual(before, after) ? (before as T) : after;
  const result: Record<string, unknown> = {};
  let isSame = true;
  for (const key of Object.keys(after)) {
    if (after[key] === undefined) continue;
    result[key] = sharing(before[key], after[key]);
    isSame &&= result[key] === before[key];
  }
  isSame &&= Object.keys(before).every((key) => before[key] === undefined || key in result);
  return (isSame ? before : result) as T;
}
