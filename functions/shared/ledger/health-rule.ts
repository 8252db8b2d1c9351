/** Rule R22: what an answer about health permits, besides the contents of a ledger. */
import { podNameOf } from "../workloads/pods.ts";
import type { Claim } from "./claim.ts";
import { type Blocked, blockedBy } from "./claim-kinds.ts";
import type { Reservation } from "./reservation.ts";

/** An answer about health, and the monotonic time in milliseconds at which Sluice asked for it. */
export interface HealthAnswer {
  readonly health: Health;
  readonly askedMs: number;
}

/** The open entries of a ledger, as it was read at that time. */
export interface OpenLedger {
  /** Those that are not settled. */
  readonly reservations: readonly Reservation[];
  readonly claims: readonly Claim[];
  /** By the same clock. */
  readonly readMs: number;
}

/**
 * Rule R22: why an answer permits nothing now; undefined if it permits. Two pods may both be told that they are not needed, as
 * long as both stand. So an answer permits only while nothing else is open in the ledger, and only if it was asked for after the
 * ledger was read. `own`: id of the claim that the function goes on with.
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
    const message = "the answer about health is older than what the ledger says, and is asked for again";
    return { guard: "health-stale", message };
  }
  if (health.state === "good") return undefined;
  if (health.state === "bad")
    return { guard: "health-bad", message: `asked about health, it says no: ${health.detail}` };
  return { guard: "health-unknown", message: `asked about health, it gives no answer: ${health.detail}` };
}

/** The refusal beside a pod that is reserved, or that the same decision takes. */
export function besideReserved(pod: string): Blocked {
  const message = `${pod} is reserved, and an answer about health permits nothing beside it`;
  return { guard: "health-beside-others", message };
}

/**
 * What an answer says of a pod's health. `good` permits. `bad`: the pod answered, and said no. `unknown`: it gave no answer, or
 * none to this question. A password that is wrong, or a path that is not there, is never taken for a yes or a no.
 */
export interface Health {
  readonly state: "good" | "bad" | "unknown";
  /** For people, on one line or several; at most some hundred characters. Others wrote it: escape it where it is shown. */
  readonly detail: string;
}
