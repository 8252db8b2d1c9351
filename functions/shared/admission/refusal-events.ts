import type { Context } from "../contract/context.ts";
import { eventName, type NewEvent } from "../events/event.ts";
import { eventReasons } from "../events/reasons.ts";
import { isNewEvent, tryCreateEvent } from "../events/recorder.ts";
import { type Cluster, hasCode } from "../kubernetes/cluster.ts";
import { groupKeyOf } from "../workloads/group-key.ts";
import type { StatefulSet } from "../workloads/statefulsets.ts";
import type { Denied } from "./definition.ts";

/** Guards that a client will hardly meet again if it retries at once, so that they need no Event. */
const passingGuards: ReadonlySet<string> = new Set([
  "pod-unseen",
  "late",
  "ledger-contended",
  "api-server-away",
  "credentials-refused",
]);

const refusalEventEveryMs = 60_000;

/**
 * Sends the Kubernetes Event about a refused review, on the StatefulSet: one for each guard and StatefulSet a minute, whatever
 * the number of replicas and of clients. Returns at once. An Event that cannot be sent is a log line.
 */
export function recordRefusal(
  context: Context,
  by: string,
  owner: StatefulSet,
  { guard, message }: Denied,
  reason: string,
): void {
  if (context.mode === "shadow" || passingGuards.has(guard)) return;
  const identity = `${guard} ${owner.uid} ${minuteOf(context.cluster.serverTimeMs())}`;
  record(context, by, owner, identity, { type: "Warning", reason, message: `${guard}: ${message}`, identity });
}

/** The same for a review that waits for its turn: one for each StatefulSet a minute, in a form that {@link findWait} reads. */
export function recordWait(context: Context, by: string, owner: StatefulSet, { guard, message }: Denied): void {
  const identity = minuteOf(context.cluster.serverTimeMs());
  const reason = eventReasons.evictionWaits;
  const event = { type: "Normal", reason, message: `${guard}: ${message}`, identity } as const;
  record(context, by, owner, `${reason} ${owner.uid} ${identity}`, event);
}

/**
 * Sends an Event once for each `occasion`. If that fails, there is no other attempt before the next minute, or each refused
 * review of a storm would make one.
 */
function record(
  context: Context,
  by: string,
  owner: StatefulSet,
  occasion: string,
  event: Omit<NewEvent, "about">,
): void {
  // The group is taken from the StatefulSet itself, because many reviews are refused before a budget is read.
  const key = groupKeyOf(owner);
  if (!isNewEvent(context, key, occasion)) return;
  void tryCreateEvent(context, by, key, { ...event, about: { resource: "statefulsets", ...owner } });
}

function minuteOf(atMs: number): string {
  return String(Math.floor(atMs / refusalEventEveryMs));
}

/**
 * The last report of {@link recordWait} about a StatefulSet in this minute or in the last one, and its time. Throws
 * ClusterError.
 */
export async function findWait(
  cluster: Cluster,
  owner: StatefulSet,
): Promise<{ readonly message: string; readonly at: string } | undefined> {
  const nowMs = cluster.serverTimeMs();
  const about = { resource: "statefulsets" as const, ...owner };
  for (const atMs of [nowMs, nowMs - refusalEventEveryMs]) {
    const name = eventName(about, eventReasons.evictionWaits, minuteOf(atMs));
    try {
      const { message = "", lastTimestamp = "" } = await cluster.get("events", { namespace: owner.namespace, name });
      return { message, at: lastTimestamp };
    } catch (error) {
      // A user who may not read Events sees the rest.
      if (!hasCode(error, 403, 404)) throw error;
    }
  }
  return undefined;
}
