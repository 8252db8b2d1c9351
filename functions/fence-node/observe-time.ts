/** What time shows of an armed fence: the Leases of the peers, and what this process has observed of them earlier. */

import * as keys from "../shared/annotations/fencing.ts";
import { agentKey, type Peer } from "../shared/annotations/fencing-peers.ts";
import { read } from "../shared/annotations/table.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import type { GroupMemory } from "../shared/contract/memory.ts";
import { find } from "../shared/kubernetes/find.ts";
import { lastedMs } from "../shared/kubernetes/lasted.ts";
import { isArmedFor } from "./decide-stopping.ts";
import type { EarlierObservation, PeerSeen, TimeView } from "./decide-time.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { agentName } from "./lease-names.ts";
import type { FenceSnapshot } from "./snapshot.ts";

/** One fence that this process has known to be armed ever since. */
interface ArmedMemory {
  /** The fence, and the version of the agent's Lease that it was armed by: another process may arm it anew in between. */
  readonly identity: string;
  /** When the first observation had ended. */
  readonly sinceMs: number;
  readonly observations: readonly EarlierObservation[];
}

/** Of each key of each process. What is forgotten is counted anew: later, and never wrong. */
const memories = new WeakMap<GroupMemory, ArmedMemory>();

/** Observations come every three seconds, and more often with events. Older ones show no contact. */
const mostObservations = 40;

export interface ObservedFence extends Pick<FenceSnapshot, "node" | "record" | "agent"> {
  /** When the first request of this observation was sent. */
  readonly beganMs: number;
  readonly namespace: string;
}

/**
 * Undefined where the fence is not armed for an agent that isolation resets. An observation that does not show that begins the
 * count anew. Throws ClusterError.
 */
export async function observeTime(
  context: Context,
  key: ObjectRef,
  { node, record, agent, beganMs, namespace }: ObservedFence,
): Promise<TimeView | undefined> {
  const memory = context.memoryOf(key);
  const isArmed = typeof record === "object" && record.phase === "armed" && isArmedFor(agent, record);
  const noted = isArmed ? record.agent : undefined;
  if (!isArmed || noted?.mode !== "armed") {
    memories.delete(memory);
    return undefined;
  }
  const peers = await Promise.all(noted.peers.map((peer) => readPeer(context, namespace, peer)));
  const endedMs = lastedMs(context.cluster);
  const identity = [record.fenceId, record.bootId, noted.uid, noted.resourceVersion].join(" ");
  const known = memories.get(memory);
  const { sinceMs, observations } =
    known?.identity === identity ? known : { sinceMs: endedMs, observations: [] as readonly EarlierObservation[] };
  const renewals = new Map(peers.flatMap((peer) => (peer.renewals === undefined ? [] : [[peer.name, peer.renewals]])));
  const kept = [...observations, { beganMs, renewals }].slice(-mostObservations);
  memories.set(memory, { identity, sinceMs, observations: kept });
  return {
    beganMs,
    endedMs,
    armedMs: sinceMs,
    mode: noted.mode,
    isBootOfNode: noted.bootId === record.bootId,
    permitLifeMs: noted.permitMs,
    watchdogMs: noted.watchdogMs,
    isReady: node?.isReady ?? false,
    peers,
    observations,
  };
}

/** A peer without a Lease, or with another key, is not in contact. */
async function readPeer({ cluster }: Context, namespace: string, { name, fingerprint }: Peer): Promise<PeerSeen> {
  const lease = await find(cluster, "leases", { namespace, name: agentName(name) });
  if (lease === undefined) {
    return { name, hasListedKey: false, contactMs: undefined, renewals: undefined, freshMs: undefined };
  }
  const publicKey = read(agentKey, lease.metadata);
  return {
    name,
    hasListedKey: publicKey !== undefined && fingerprintOf(publicKey) === fingerprint,
    contactMs: read(keys.agentContactSeconds, lease.metadata),
    renewals: read(keys.agentRenewals, lease.metadata),
    freshMs: read(keys.agentFreshSeconds, lease.metadata),
  };
}
