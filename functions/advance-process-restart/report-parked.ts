/** The Events about processes that a person parks. */

import { describeMalformed } from "../shared/annotations/entry.ts";
import { parking } from "../shared/annotations/parking.ts";
import { restartPhase } from "../shared/annotations/restart.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import type { Zone } from "../shared/groups/zones.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { shownPhases } from "./decide.ts";
import { isParkingWanted } from "./decide-parked.ts";
import { name } from "./observe.ts";

/** A template may have the same wrong value for a thousand pods. */
const mostReported = 8;

type Warned = { readonly type: "Normal" | "Warning"; readonly reason: string; readonly message: string };

function report(context: Context, key: GroupKey, pod: Pod, event: Warned, identity: string): Promise<void> {
  return recordOnce(context, name, key, { about: { resource: "pods", ...pod }, ...event, identity });
}

export function reportParked(context: Context, key: GroupKey, { id }: KnownClaim, pod: Pod): Promise<void> {
  const message = `the process of ${pod.name} is parked: it starts again when ${parking.key} is taken off`;
  return report(context, key, pod, { type: "Normal", reason: eventReasons.processParked, message }, `${id} parked`);
}

export function reportUnparked(context: Context, key: GroupKey, { id }: KnownClaim, pod: Pod): Promise<void> {
  const message = `${pod.name} is parked no longer, and its process runs`;
  return report(context, key, pod, { type: "Normal", reason: eventReasons.processUnparked, message }, `${id} unparked`);
}

/** What a person writes about the restart of a parked process is answered once, and the phase stands as before. */
export async function reportAsked(context: Context, key: GroupKey, { id }: KnownClaim, pod: Pod): Promise<void> {
  const { text, phase } = pod.restart ?? {};
  if (text === undefined || (phase !== undefined && shownPhases.has(phase))) return;
  const message = `${restartPhase.key} ${text} does nothing, because the process of ${pod.name} is parked: take ${parking.key} off to start it`;
  const event = { type: "Warning", reason: eventReasons.processParked, message } as const;
  await report(context, key, pod, event, `${id} ${text}`);
}

/** A value that is not `true` parks nothing. */
export async function reportStops(context: Context, key: GroupKey, zones: readonly Zone[]): Promise<void> {
  const pods = zones.flatMap((zone) => zone.pods.filter((pod) => pod.stop !== undefined && !isParkingWanted(pod)));
  for (const pod of pods.slice(0, mostReported)) {
    const message = describeMalformed(parking, pod.stop ?? "");
    const event = { type: "Warning", reason: eventReasons.malformed, message } as const;
    await report(context, key, pod, event, `${pod.uid} ${message}`);
  }
}
