import type { Context } from "../contract/context.ts";
import type { Key } from "../contract/keys.ts";
import { createEvent, type NewEvent } from "./event.ts";

/** True the first time that something is to be said of a key, as long as that is remembered. */
export function isNewEvent(context: Context, key: Key, identity: string): boolean {
  const { announced } = context.memoryOf(key);
  if (announced.has(identity)) return false;
  announced.add(identity);
  return true;
}

/** Sends the Event that {@link isNewEvent} has found new; one that cannot be sent is new again. Resolves, never rejects. */
export async function recordEvent(context: Context, by: string, key: Key, announcement: NewEvent): Promise<void> {
  const isSent = await tryCreateEvent(context, by, key, announcement);
  if (!isSent) context.memoryOf(key).announced.delete(announcement.identity);
}

/** Sends an Event once, as long as that is remembered, and none in shadow mode. Resolves, never rejects. */
export async function recordOnce(context: Context, by: string, key: Key, announcement: NewEvent): Promise<void> {
  if (context.mode === "shadow" || !isNewEvent(context, key, announcement.identity)) return;
  await recordEvent(context, by, key, announcement);
}

/** Sends an Event about a key; that it cannot be sent is a log line and nothing more. Resolves to whether it was sent. */
export async function tryCreateEvent(
  { cluster, reporter }: Pick<Context, "cluster" | "reporter">,
  by: string,
  key: Key,
  announcement: NewEvent,
): Promise<boolean> {
  try {
    await createEvent(cluster, by, announcement);
    return true;
  } catch (error) {
    reporter.problem(key, by, `no Event could be sent about ${announcement.about.name}`, error);
    return false;
  }
}
