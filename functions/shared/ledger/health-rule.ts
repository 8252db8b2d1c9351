/** Rule R22: what an answer about health permits, beside what a ledger holds. */
import { podNameOf } from "../workloads/pods.ts";
import type { Claim } from "./claim.ts";
import { type Blocked, blockedBy } from "./claim-kinds.ts";
import type { Reservation } from "./reservation.ts";

/** An answer, and when it was asked for, by the monotonic clock in milliseconds. */
export interface HealthAnswer {
  readonly health: Health;
  readonly askedMs: number;
}

/** What a ledger holds, as it was read at that time. */
export interface OpenLedger {
  /** Those that are not settled. */
  readonly reservations: readonly Reservation[];
  readonly claims: readonly Claim[];
  /** By the same clock. */
  readonly readMs: number;
}

/**
 * Rule R22: why a good answer permits nothing now; undefined where it does. Two pods may both be told that they are not needed,
 * as long as both stand: so it permits only while nothing else is open in the ledger, and only where it was asked for after the
 * ledger was read. `own`: the id of the claim that is gone on with.
 */
export function refuseByHealth(
  ledger: OpenLedger,
  { health, askedMs }: HealthAnswer,
  own?: string,
): Blocked | undefined {
  const claim = ledger.claims.find(({ id }) => id !== own);
  if (claim !== undefined) return blockedBy(claim);
  const [reservation] = ledger.reservations;
  if (reservation !== undefined) return besideReserved(podNameOf(reservation));
  if (askedMs < ledger.readMs) {
    const sentence = "the answer about health is older than what the ledger says, and is asked for again";
    return { guard: "health-stale", sentence };
  }
  if (health.state === "good") return undefined;
  if (health.state === "bad")
    return { guard: "health-bad", sentence: `asked about health, it says no: ${health.words}` };
  return { guard: "health-unknown", sentence: `asked about health, it gives no answer: ${health.words}` };
}

/** The same of a pod that is taken by the very decision that this one is part of. */
export function besideReserved(pod: string): Blocked {
  const sentence = `${pod} is reserved, and an answer about health permits nothing beside it`;
  return { guard: "health-beside-others", sentence };
}

/**
 * What an answer says of a pod's health. `good` permits. `bad`: the pod answered, and said no. `unknown`: it gave no answer, or
 * none to this question. A password that is wrong, or a path that is not there, is never taken for a yes or a no.
 */
export interface Health {
  readonly state: "good" | "bad" | "unknown";
  /** For people, on one line or several; at most some hundred characters. Others wrote it: escape it where it is shown. */
  readonly words: string;
}
