/** The Events of Sluice in all served namespaces, by one LIST for each. */
import type { StatusContext } from "../shared/contract/definition.ts";
import { eventSource } from "../shared/events/event.ts";
import type { EventObject } from "../shared/kubernetes/cluster.ts";
import type { Omissions } from "./omissions.ts";
import { createScopedLists } from "./scoped-lists.ts";
import type { SeenEvent } from "./snapshot.ts";

/** Each GET asks for the Events, so that nothing is listed while no GET comes. */
const listLimits = { everyMs: 5_000, waitMs: 1_000 };
/** The API server lists Events by name and not by time, so that the newest are known only when all are read. */
const mostListed = 5_000;
const mostKept = 200;
/** Sluice writes no longer texts, but any account that may make Events may write as if it were Sluice. */
const longest = { name: 253, reason: 128, message: 1_024 } as const;

export interface EventLists {
  /** Resolves when the Events are at most five seconds old, or within a second. */
  refresh(): Promise<void>;
  /** The newest Events, newest first; undefined if they could not be listed. */
  newest(): readonly SeenEvent[] | undefined;
}

export function createEventLists(context: StatusContext, omissions: Omissions): EventLists {
  const lists = createScopedLists<readonly SeenEvent[]>(context, omissions, {
    part: "events",
    limits: listLimits,
    async list(namespace) {
      const query = { ...(namespace === undefined ? {} : { namespace }), source: eventSource, atMost: mostListed };
      const { items } = await context.cluster.list("events", query);
      return newestOf(items.flatMap(parseEvent));
    },
  });
  return {
    refresh: lists.refresh,
    newest() {
      const all = lists.all();
      return all.length === 0 ? undefined : newestOf(all.flat());
    },
  };
}

function newestOf(events: readonly SeenEvent[]): readonly SeenEvent[] {
  return events.toSorted((one, other) => other.atMs - one.atMs).slice(0, mostKept);
}

/** None for an Event without a time, which Sluice never sends. */
function parseEvent({ metadata, involvedObject, reason = "", message = "", lastTimestamp }: EventObject): SeenEvent[] {
  const atMs = Date.parse(lastTimestamp ?? metadata.creationTimestamp ?? "");
  if (Number.isNaN(atMs)) return [];
  const { namespace = "" } = metadata;
  const object = cut(involvedObject?.name ?? "", longest.name);
  return [{ namespace, object, reason: cut(reason, longest.reason), message: cut(message, longest.message), atMs }];
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
