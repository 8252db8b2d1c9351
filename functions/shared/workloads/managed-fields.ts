/** The writers of an object's fields, by its managed fields: a LIST is read without them. */

import { type Fields, fieldsOf } from "../base/fields.ts";
import { parseTime } from "../clock/durations.ts";
import type { Metadata } from "../kubernetes/cluster.ts";

/** The manager of Sluice's writes: the API server takes the name from the beginning of the user agent. */
const ownManager = "sluice";

/**
 * Time at which another manager than Sluice last wrote such fields, in milliseconds since the epoch; undefined if none has.
 * The API server keeps one time for all fields of a manager: it may be later than the write in question, and never earlier.
 */
export function writtenByOthers({ managedFields }: Metadata, isSuch: (fields: Fields) => boolean): number | undefined {
  const entries: readonly unknown[] = Array.isArray(managedFields) ? managedFields : [];
  const times = entries.flatMap((entry) => {
    const { manager, time, fieldsV1 } = fieldsOf(entry) ?? {};
    if (manager === ownManager || typeof time !== "string" || !isSuch(fieldsOf(fieldsV1) ?? {})) return [];
    return parseTime(time) ?? [];
  });
  return times.length === 0 ? undefined : Math.max(...times);
}

/**
 * The managed fields without the entries of Sluice. Without them no manager owns what it wrote, so that clients which apply
 * manifests meet no conflict. Undefined if Sluice has no entry, or is the only manager.
 */
export function withoutOwnFields({ managedFields }: Pick<Metadata, "managedFields">): readonly unknown[] | undefined {
  const entries: readonly unknown[] = Array.isArray(managedFields) ? managedFields : [];
  const others = entries.filter((entry) => fieldsOf(entry)?.manager !== ownManager);
  // An empty list would change nothing, because the API server then takes the fields as they are.
  return others.length === 0 || others.length === entries.length ? undefined : others;
}
