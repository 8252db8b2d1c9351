/** The verdicts that several phases of a fence give. Pure. */

import type { FenceEvidence, FencePhase } from "../shared/annotations/fencing.ts";
import type { FenceVerdict, RecordSeen } from "./snapshot.ts";

/** So many names stand in a message. */
const mostNames = 5;

/** The record enters a phase, and names the evidence where there is some. */
export function enter(record: RecordSeen, phase: FencePhase, message: string, evidence?: FenceEvidence): FenceVerdict {
  const step = { kind: "enter", record, phase, ...(evidence === undefined ? {} : { evidence }) } as const;
  return { guard: phase, message, step, requeueAfterMs: undefined };
}

/** The fence goes on by itself. It is reconciled again after `requeueAfterMs` milliseconds. */
export function wait(guard: string, message: string, requeueAfterMs: number): FenceVerdict {
  return { guard, message, step: undefined, requeueAfterMs };
}

/** The record and the Node name the guard of such a wait, because a person may have to end it. */
export function onRecord({ guard, message, requeueAfterMs }: FenceVerdict): FenceVerdict {
  return { guard, message, step: undefined, requeueAfterMs, hold: guard };
}

/** The first names of a list, for a message, and how many more there are. */
export function namesOf(names: readonly string[]): string {
  const shown = names.slice(0, mostNames).join(", ");
  return names.length <= mostNames ? shown : `${shown} and ${names.length - mostNames} more`;
}
