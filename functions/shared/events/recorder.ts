import type { Context } from "../contract/context.ts";
import type { Key } from "../contract/keys.ts";
import { createEvent, type NewEvent } from "./event.ts";

/** True for an Event that this process has not sent about a key, as far as it remembers. Remembers it. */
export function isNewEvent(context: Context, key: Key, identity: string): boolean {
  return isNewIn(context.memoryOf(key).sentEvents, identity);
}

/** The same for Events that are remembered in a set of their own. */
export function isNewIn(sentEvents: Set<string>, identity: string): boolean {
  if (sentEvents.has(identity)) return false;
  sentEvents.add(identity);
  return true;
}

/** Sends the Event that {@link isNewEvent} has found new. If that fails, it is new again. Never rejects. */
export async function recordEvent(context: Context, by: string, key: Key, event: NewEvent): Promise<void> {
  const isSent = await tryCreateEvent(context, by, key, event);
  if (!isSent) context.memoryOf(key).sentEvents.delete(event.identity);
}

/** Sends an Event unless this process remembers it, or is in shadow mode. Never rejects. */
export async function recordOnce(context: Context, by: string, key: Key, event: NewEvent): Promise<void> {
  if (context.mode === "shadow" || !isNewEvent(context, key, event.identity)) return;
  await recordEvent(context, by, key, event);
}

/** Sends an Event about a key. A failure is only logged. Resolves to whether it was sent. */
export async function tryCreateEvent(
  { cluster, reporter }: Pick<Context, "cluster" | "reporter">,
  by: string,
  key: Key,
  event: NewEvent,
): Promise<boolean> {
  try {
    await createEvent(cluster, by, event);
    return true;
  } catch (error) {
    reporter.problem(key, by, `no Event could be sent about ${event.about.name}`, error);
    return false;
  }
}
