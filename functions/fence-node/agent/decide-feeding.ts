/** Whether the agent feeds the watchdog now. Pure. */
import type { ArmedFence } from "../../shared/annotations/fencing.ts";

/** How long after the last feed a watchdog of time W must have fired: 2 W. */
const overdueTimes = 2;

export interface FeedingView {
  /** All times are of the boottime clock of this machine, in milliseconds. */
  readonly nowMs: number;
  /** When the request was sent that last renewed the permit; undefined if none has done so in this boot. */
  readonly permitMs: number | undefined;
  /** How long a permit lasts (L). */
  readonly permitLifeMs: number;
  /** The agent behaves as `armed`: a permit that has run out resets the node. */
  readonly isArmed: boolean;
  /** The fence of this boot, once the agent has read of it; it stays until the end of the boot. */
  readonly fence: ArmedFence | undefined;
  /** True once the agent has read our taint on its Node after it had read of the fence. */
  readonly isTainted: boolean;
  /** Time of the watchdog (W); undefined if there is no watchdog that the agent can use. */
  readonly watchdogMs: number | undefined;
  /** Boots of this machine end so soon that they are a loop. */
  readonly isLoop: boolean;
  /** Time of the last feed, or of the start of this process if that is later; undefined until the device runs in this boot. */
  readonly fedMs: number | undefined;
}

/**
 * - `wait`: the device is not touched, because this boot has had no permit, or may be the next one of a loop.
 * - `feed`
 * - `starve`: the device is started if it does not run in this boot, and not fed any more.
 * - `reset`: the machine must be reset without its watchdog, which is missing or has failed to fire.
 */
export type FeedingVerdict = "wait" | "feed" | "starve" | "reset";

/**
 * Isolation alone resets the node of an `armed` agent, and never that of an `explicit-only` one: there a permit that has run out
 * is no reason to starve. With a fence the permit is not renewed, and the taint on the Node ends it at once. In a loop of boots
 * the device is not started before a fence: an agent that crashes again and again would have the machine reset each time.
 */
export function decideFeeding(view: FeedingView): FeedingVerdict {
  const { nowMs, permitMs, permitLifeMs, isArmed, fence, isTainted, watchdogMs, isLoop, fedMs } = view;
  if (fence === undefined || !isTainted) {
    if (permitMs === undefined) return "wait";
    const isPermitted = nowMs - permitMs <= permitLifeMs;
    const mayGoOn = isPermitted || (fence === undefined && !isArmed);
    if (mayGoOn) return isLoop && fedMs === undefined ? "wait" : "feed";
  }
  if (watchdogMs === undefined) return "reset";
  return nowMs - (fedMs ?? nowMs) >= overdueTimes * watchdogMs ? "reset" : "starve";
}

/** Whether an orderly stop disarms the device by `V`. Otherwise it keeps counting, and the successor has W to take over. */
export function mayDisarm(stop: {
  /** The API server has acknowledged the write of the mode `disarmed`. */
  readonly isAcknowledged: boolean;
  readonly fence: ArmedFence | undefined;
  /** The device cannot be stopped (`nowayout`). */
  readonly isNoWayOut: boolean;
}): boolean {
  return stop.isAcknowledged && stop.fence === undefined && !stop.isNoWayOut;
}
