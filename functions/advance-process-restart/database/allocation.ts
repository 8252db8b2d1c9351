/** Changes where shards may be allocated while a process restarts, and undoes that. */

import { fieldsOf } from "../../shared/base/fields.ts";
import {
  type Allocation,
  decideRelease,
  decideRestriction,
  readAllocation,
  type SettingsChange,
} from "./decide-allocation.ts";
import { type Answered, askDatabase, type Database, type Question } from "./exchange.ts";

const path = "/_cluster/settings";

const settings: Question<Allocation> = { method: "GET", path: `${path}?flat_settings=true`, read: readAllocation };

/** How long one member may take to change a setting, in milliseconds: all nodes must apply it. */
const changeWithinMs = 4_000;
/** How long a flush may take, in milliseconds. It is for speed alone. */
const flushWithinMs = 30_000;
/** No change is sent later than so long after the read that it rests on, in milliseconds. */
const changeAfterReadMs = 4_500;

/** What the settings are now. Throws ClusterError. */
export function askAllocation(database: Database): Promise<Answered<Allocation>> {
  return askDatabase(database, settings);
}

/**
 * Restricts allocation for a restart, no later than `notAfterMs` of the monotonic clock (rule R9). The database has no
 * conditional write: what a user sets between the read and the write is lost. Throws ClusterError.
 */
export async function restrictAllocation(database: Database, id: string, notAfterMs: number): Promise<Answered<true>> {
  const before = await askAllocation(database);
  if ("unknown" in before) return before;
  const change = decideRestriction(before.value, id);
  return change === undefined ? { value: true } : write(database, change, notAfterMs);
}

/** Undoes that, and resolves to `true` once a read shows no marker of the restart. Throws ClusterError. */
export async function releaseAllocation(database: Database, id: string): Promise<Answered<true>> {
  const notAfterMs = database.context.cluster.monotonicMs() + changeAfterReadMs;
  const before = await askAllocation(database);
  if ("unknown" in before) return before;
  const change = decideRelease(before.value, id);
  if (change === undefined) return { value: true };
  const written = await write(database, change, notAfterMs);
  if ("unknown" in written) return written;
  const now = await askAllocation(database);
  if ("unknown" in now) return now;
  return now.value.marker?.id === id
    ? { unknown: "the database still has the marker of the restart" }
    : { value: true };
}

/** Makes the recovery of the process short. No answer of it stops a restart. Throws ClusterError. */
export async function flush(database: Database, notAfterMs: number): Promise<void> {
  const [member] = database.members;
  if (member === undefined) return;
  const question: Question<true> = { method: "POST", path: "/_flush", read: () => true };
  await askDatabase({ ...database, members: [member] }, question, { notAfterMs, timeoutMs: flushWithinMs });
}

function write(database: Database, persistent: SettingsChange, notAfterMs: number): Promise<Answered<true>> {
  const read = (document: unknown) => (fieldsOf(document)?.acknowledged === true ? true : undefined);
  const question: Question<true> = { method: "PUT", path, body: { persistent }, read };
  return askDatabase(database, question, { notAfterMs, timeoutMs: changeWithinMs });
}
