/**
 * Rule R12 renews a reservation each time that an eviction of its pod is allowed again. If something behind Sluice refuses every
 * one of these evictions, the renewals would hold the group for ever, so they have an end.
 */
import { podNameOf } from "../workloads/pods.ts";
import { dropAfterMs, type Refusal, type Reservation } from "./reservation.ts";

/** Longest time for which a reservation is renewed, in milliseconds. After that rule R10 drops it. */
export const renewForMs = 60_000;

/** For so long after such a drop a waiting rollout goes before other evictions of the group, in milliseconds. */
export const yieldMs = 60_000;

/** True if a reservation was renewed for that long, so that it lapses now. Only its stamps count, not a clock of this process. */
export function isGivenUp({ stampMs, sinceMs = stampMs }: Reservation): boolean {
  return stampMs - sinceMs >= renewForMs;
}

/** Since when a new reservation has stood: since `before`, if the same function made it for the same pod. */
export function renewalOf(before: Reservation | undefined, uid: string, by: string): Pick<Reservation, "sinceMs"> {
  if (before === undefined || before.uid !== uid || before.by !== by) return {};
  return { sinceMs: before.sinceMs ?? before.stampMs };
}

/**
 * What a ledger remembers of a reservation that was given up and dropped. Its stamp is the moment from which rule R10 lets any
 * function drop it, so that all functions know the same time, although a refusal writes nothing.
 */
export function refusalOfRenewals(reservation: Reservation): Refusal {
  const { uid, by, stampMs, sinceMs = stampMs } = reservation;
  const pod = podNameOf(reservation);
  const seconds = Math.round((stampMs - sinceMs) / 1000);
  const message = `${pod} was allowed to go again and again for ${seconds} s, and is still there: something behind Sluice refuses its eviction, such as another webhook or a quota; find it in what the eviction is answered while Sluice allows it, or with kubectl get validatingwebhookconfigurations, and mend it. This pod waits for some minutes, so that others can go`;
  return { uid, pod, message, stampMs: stampMs + dropAfterMs, by };
}
