/** The phases of a restart of many processes: all of its claims are in the same one, and change by one write. Pure. */

import type { RestartPhase } from "../../shared/annotations/restart.ts";
import type { KnownClaim } from "../../shared/ledger/claim.ts";
import type { Verb } from "../calls.ts";
import { phases } from "../decide-step.ts";

/** Those of one process, and the one before them. The write of `starting` is the barrier: all processes are down then. */
export const togetherPhases = { preparing: "preparing", ...phases } as const;

const calls: Readonly<Record<string, Verb>> = {
  stopping: "stop",
  killing: "kill",
  starting: "start",
  withdrawing: "start",
};

/** What each process manager is asked in a phase; undefined where nothing is asked. */
export function callIn(phase: string): Verb | undefined {
  return calls[phase];
}

export function shownTogether(phase: string): RestartPhase {
  return callIn(phase) === "start" ? "start-coordinated" : "stop-coordinated";
}

/** What the ids of all its claims begin with: pods, StatefulSets, process managers and the database know it by that. */
export function stemOf({ id, zone }: Pick<KnownClaim, "id" | "zone">): string {
  return id.endsWith(`/${zone}`) ? id.slice(0, -zone.length - 1) : id;
}
