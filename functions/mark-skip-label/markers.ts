/** Which pods have their marker where their stop hooks look for it, read in the containers if the account may do that. */
import { messageOf } from "../shared/base/error-message.ts";
import { mapLimit } from "../shared/base/map-limit.ts";
import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { isNewEvent } from "../shared/events/recorder.ts";
import { mayNotSee, type ReleasedPod } from "./decide.ts";
import { settings } from "./owners.ts";

const name = "mark-skip-label";
/** A container that does not answer must not hold up a reconcile, in milliseconds. */
const readWithinMs = 3_000;
/** The most markers that are read at one time. */
const atOnce = 8;

/**
 * The members, with the markers of those that may not see their label yet. A marker that cannot be read counts as missing, and
 * its time is waited for. Never rejects.
 */
export async function seeMarkers(
  context: Context,
  key: ObjectRef,
  members: readonly ReleasedPod[],
  waitMs: number,
): Promise<readonly ReleasedPod[]> {
  const { cluster, mode } = context;
  const { skipLabelMarker: marker } = valuesOf(settings, context.settings);
  if (marker === "none" || mode === "shadow" || cluster.readFile === undefined) return members;
  const nowMs = cluster.serverTimeMs();
  const due = members.filter((one) => !one.isTerminating && one.hasLabel && mayNotSee(one, nowMs, waitMs));
  const seen = new Set<string>();
  await mapLimit(due, atOnce, async ({ name: pod, uid }) => {
    try {
      const at = { namespace: key.namespace, name: pod };
      const text = await cluster.readFile?.(at, marker.container, marker.path, AbortSignal.timeout(readWithinMs));
      // Any text is a marker, as for stop hooks.
      if (text !== undefined && text !== "") seen.add(uid);
    } catch (error) {
      warnOnce(context, key, error);
    }
  });
  return members.map((one) => (seen.has(one.uid) ? { ...one, hasSeen: true } : one));
}

function warnOnce(context: Context, key: ObjectRef, error: unknown): void {
  const message = `markers cannot be read in pods, so that SKIP_LABEL_WAIT is waited for: ${messageOf(error)}. The account needs the right to create and get pods/exec`;
  if (isNewEvent(context, { namespace: "", group: "" }, message)) context.reporter.problem(key, name, message, error);
}
