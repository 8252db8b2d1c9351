/**
 * Whether time shows that the fenced boot is over: nothing can have renewed its permit since the fence was armed, and its
 * watchdog has fired meanwhile. It is no sum of time-outs, because peers prove that they cannot have excused the node. Pure.
 */

import type { AgentMode } from "../shared/annotations/fencing.ts";
import { provingPeers } from "./decide-quorum.ts";

/** For clocks that run at different speeds, and watchdogs that count whole seconds. */
const marginMs = 2_000;

/** What the Lease of a peer says. */
export interface PeerSeen {
  readonly name: string;
  /** The Lease has the key by which the fenced agent knows the answers of this peer: they are of the same process. */
  readonly hasListedKey: boolean;
  /** For how long the peer has been in contact with the API server; undefined where the Lease does not say it. */
  readonly contactMs: number | undefined;
  readonly renewals: number | undefined;
  /** How old an observation may be against which two later renewals show contact; undefined where the Lease does not say it. */
  readonly freshMs: number | undefined;
}

/** What this process has read of the peers earlier. */
export interface EarlierObservation {
  /** When the first of its requests was sent. */
  readonly beganMs: number;
  /** The renewals of each peer that said them. */
  readonly renewals: ReadonlyMap<string, number>;
}

export interface TimeView {
  /** When the first request of this observation was sent, by the monotonic clock of this process, in milliseconds. */
  readonly beganMs: number;
  /** When the last one was answered. */
  readonly endedMs: number;
  /** Since when this process has known that the fence is armed, and has read nothing else; undefined: it does not know it. */
  readonly armedMs: number | undefined;
  /** What the agent said when it was armed. */
  readonly mode: AgentMode | undefined;
  readonly isBootOfNode: boolean;
  readonly permitLifeMs: number | undefined;
  readonly watchdogMs: number | undefined;
  /** The kubelet of the fenced boot reports, be it that the node is not ready. */
  readonly isReporting: boolean;
  /** The peers that the agent had adopted when it was armed, each with its Lease; one without a Lease says nothing. */
  readonly peers: readonly PeerSeen[];
  readonly observations: readonly EarlierObservation[];
}

/**
 * - `no-evidence`: time never is evidence for this fence.
 * - `waiting`: for at least so long.
 * - `alive`: a kubelet that reports runs, though the time has been over for so long.
 * - `no-quorum`: peers that are not in contact may have excused the node.
 */
export type TimeVerdict =
  | { readonly kind: "no-evidence" }
  | { readonly kind: "alive"; readonly overMs: number }
  | { readonly kind: "stopped"; readonly afterMs: number; readonly inContact: number }
  | { readonly kind: "waiting"; readonly forMs: number }
  | { readonly kind: "no-quorum"; readonly inContact: number; readonly needed: number };

/** The README of this function says why it is right. */
export function decideTime(view: TimeView): TimeVerdict {
  const { mode, isBootOfNode, armedMs, peers } = view;
  const durationMs = fenceDurationMs(view);
  if (mode !== "armed" || !isBootOfNode || durationMs === undefined || peers.length === 0)
    return { kind: "no-evidence" };
  const overMs = view.beganMs - (armedMs ?? view.beganMs) - durationMs;
  if (overMs < 0) return { kind: "waiting", forMs: -overMs };
  if (view.isReporting) return { kind: "alive", overMs };
  const inContact = peers.filter((peer) => isInContact(peer, view, durationMs)).length;
  const needed = provingPeers(peers.length);
  return inContact >= needed
    ? { kind: "stopped", afterMs: durationMs, inContact }
    : { kind: "no-quorum", inContact, needed };
}

/** T = L + 2 W + 2 s: the last permit, a write of the watchdog that was paused after its check, and the watchdog itself. */
function fenceDurationMs({ permitLifeMs, watchdogMs }: TimeView): number | undefined {
  if (permitLifeMs === undefined || watchdogMs === undefined || watchdogMs === 0) return undefined;
  return permitLifeMs + 2 * watchdogMs + marginMs;
}

/**
 * The first renewal since an earlier observation may have been sent before it. The second was sent after the first was
 * acknowledged, hence after that observation began. So the peer answers `no-api` to no agent before the present one.
 */
function isInContact(peer: PeerSeen, { endedMs, observations }: TimeView, durationMs: number): boolean {
  const { name, hasListedKey, contactMs, renewals, freshMs } = peer;
  if (!hasListedKey || contactMs === undefined || renewals === undefined || freshMs === undefined) return false;
  const showsTwo = ({ beganMs, renewals: earlier }: EarlierObservation): boolean => {
    const then = earlier.get(name);
    return then !== undefined && endedMs - beganMs <= freshMs && renewals >= then + 2;
  };
  return contactMs >= durationMs && observations.some(showsTwo);
}
