import type { Context } from "../contract/context.ts";
import type { Key } from "../contract/keys.ts";
import { createEvent, type NewEvent } from "./event.ts";

/** True for an Event that this process has not sent about a key, as far as it remembers. Remembers it. */
export function isNewEvent(context: Context, key: Key, identity: string): boolean {
  const { announced } = context.memoryOf(key);
  if (announced.has(identity)) return false;
  announced.add(identity);
  return true;
}

/** Sends the Event that {@link isNewEvent} has found new. If that fails, it is new again. Never rejects. */
export async function recordEvent(context: Context, by: string, key: Key, announcement: NewEvent): Promise<void> {
  const isSent = await tryCreateEvent(context, by, key, announcement);
  if (!isSent) context.memoryOf(key).announced.delete(announcement.identity);
}

/** Sends an Event unless this process remembers it, or is in shadow mode. Never rejects. */
export async function recordOnce(context: Context, by: string, key: Key, announcement: NewEvent): Promise<void> {
  if (context.mode === "shadow" || !isNewEvent(context, key, announcement.identity)) return;
  await recordEvent(context, by, key, announcement);
}

/** Sends an Event about a key. A failure is only logged. Resolves to whether it was sent. */
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
