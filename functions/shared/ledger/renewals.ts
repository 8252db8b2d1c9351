/**
 * Rule R12 allows a reserved pod again each time that it is asked for, and each time its reservation begins to age anew. Where
 * something behind Sluice refuses every one of these evictions, that would hold the group for ever: so renewing has an end.
 */
import { podNameOf } from "../workloads/pods.ts";
import { dropAfterMs, type Refusal, type Reservation } from "./reservation.ts";

/** A reservation that has been renewed for so long is not renewed any more, so that rule R10 drops it, in milliseconds. */
export const renewForMs = 60_000;

/** Once such a reservation is dropped, a rollout that waits goes before other evictions of the group, in milliseconds. */
export const turnMs = 60_000;

/** True when it was renewed until it was that old, and is to lapse now. By the stamps alone: no clock of this process counts. */
export function isGivenUp({ stampMs, sinceMs = stampMs }: Reservation): boolean {
  return stampMs - sinceMs >= renewForMs;
}

/** Since when a reservation that is made now has stood: as long as the same function's for the same pod, which it renews. */
export function renewalOf(before: Reservation | undefined, uid: string, by: string): Pick<Reservation, "sinceMs"> {
  if (before === undefined || before.uid !== uid || before.by !== by) return {};
  return { sinceMs: before.sinceMs ?? before.stampMs };
}

/**
 * What is remembered of a reservation that was given up, once it is dropped. Its stamp is the moment from which rule R10 lets
 * any function drop it: each one that looks says the same, though a refusal writes nothing.
 */
export function refusalOfRenewals(reservation: Reservation): Refusal {
  const { uid, by, stampMs, sinceMs = stampMs } = reservation;
  const pod = podNameOf(reservation);
  const seconds = Math.round((stampMs - sinceMs) / 1000);
  const sentence = `${pod} was allowed to go again and again for ${seconds} s, and is still there: something behind Sluice refuses its eviction, such as another webhook or a quota; find it in what the eviction is answered while Sluice allows it, or with kubectl get validatingwebhookconfigurations, and mend it. This pod waits for some minutes, so that others can go`;
  return { uid, pod, sentence, stampMs: stampMs + dropAfterMs, by };
}
