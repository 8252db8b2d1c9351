/** What this process knows of an armed fence and of the peers of its node. Evidence by time rests on it. */

import { read } from "../shared/annotations/entry.ts";
import * as keys from "../shared/annotations/fencing.ts";
import { agentName } from "../shared/annotations/fencing-leases.ts";
import { agentKey, type Peer } from "../shared/annotations/fencing-peers.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import type { KnownArmed } from "../shared/contract/memory.ts";
import type { Cluster, LeaseObject } from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import { lastedMs } from "../shared/kubernetes/lasted.ts";
import { isArmedFor } from "./decide-stopping.ts";
import type { PeerSeen, TimeView } from "./decide-time.ts";
import { fingerprintOf } from "./fingerprint.ts";
import type { FenceSnapshot } from "./snapshot.ts";

/** So many observations are remembered. They are spread over the time in which one of them may count. */
const mostObservations = 40;

/** When an observation began, before its first request. */
export interface ObservationBegin {
  /** By {@link lastedMs}. */
  readonly beganMs: number;
  /** How much only the wall clock had shown by then. */
  readonly skippedMs: number;
}

export function beginOf(cluster: Pick<Cluster, "monotonicMs" | "skippedMs">): ObservationBegin {
  return { beganMs: lastedMs(cluster), skippedMs: cluster.skippedMs?.() ?? 0 };
}

/**
 * Reads the peers of an armed fence, and remembers what they showed. Undefined where time is no evidence, or where the fence is
 * not armed as the record notes it: then this process forgets what it knew. Throws ClusterError.
 */
export async function readTime(
  context: Context,
  { key, namespace }: { readonly key: ObjectRef; readonly namespace: string },
  { beganMs, skippedMs }: ObservationBegin,
  { record, node, agent }: Pick<FenceSnapshot, "record" | "node" | "agent">,
): Promise<TimeView | undefined> {
  const memory = context.memoryOf(key);
  const isArmed = typeof record === "object" && record.phase === "armed" && isArmedFor(agent, record);
  const noted = isArmed ? record.agent : undefined;
  if (!isArmed || noted?.mode !== "armed") {
    memory.knownArmed = undefined;
    return undefined;
  }
  const identity = [record.uid, record.fenceId, record.bootId, noted.uid, noted.resourceVersion].join(" ");
  const known = memory.knownArmed?.identity === identity ? memory.knownArmed : undefined;
  memory.knownArmed = known;
  const peers = await readPeers(context, namespace, noted.peers);
  const { beganMs: endedMs, skippedMs: skippedByNow } = beginOf(context.cluster);
  // What only the wall clock has shown may be sleep: an observation from before it may be older than it seems.
  const hasSlept = skippedByNow !== skippedMs;
  const observations = hasSlept || known?.skippedMs !== skippedMs ? [] : known.observations;
  const renewals = new Map(peers.flatMap(({ name, renewals: count }) => (count === undefined ? [] : [[name, count]])));
  const kept = hasSlept ? [] : withObservation(observations, { beganMs, renewals }, peers);
  memory.knownArmed = { identity, sinceMs: known?.sinceMs ?? endedMs, skippedMs: skippedByNow, observations: kept };
  return {
    beganMs,
    endedMs,
    armedMs: known?.sinceMs,
    mode: noted.mode,
    isBootOfNode: noted.bootId === record.bootId,
    permitLifeMs: noted.permitMs,
    watchdogMs: noted.watchdogMs,
    isReporting: node?.isReporting === true,
    peers,
    observations,
  };
}

/** Events may bring many observations at once: these must not displace the older ones, which can show two renewals. */
function withObservation(
  earlier: KnownArmed["observations"],
  observation: KnownArmed["observations"][number],
  peers: readonly PeerSeen[],
): KnownArmed["observations"] {
  const freshMs = Math.max(0, ...peers.map((peer) => peer.freshMs ?? 0));
  const fresh = earlier.filter(({ beganMs }) => observation.beganMs - beganMs <= freshMs);
  const last = fresh.at(-1);
  if (last !== undefined && observation.beganMs - last.beganMs < freshMs / mostObservations) return fresh;
  return [...fresh, observation].slice(-mostObservations);
}

async function readPeers(context: Context, namespace: string, peers: readonly Peer[]): Promise<readonly PeerSeen[]> {
  return Promise.all(
    peers.map(async (peer) => {
      const lease = await find(context.cluster, "leases", { namespace, name: agentName(peer.name) });
      return parsePeer(peer, lease?.metadata);
    }),
  );
}

/** A peer without a Lease says nothing. */
function parsePeer({ name, fingerprint }: Peer, metadata: LeaseObject["metadata"] | undefined): PeerSeen {
  if (metadata === undefined)
    return { name, hasListedKey: false, contactMs: undefined, renewals: undefined, freshMs: undefined };
  const key = read(agentKey, metadata);
  return {
    name,
    hasListedKey: key !== undefined && fingerprintOf(key) === fingerprint,
    contactMs: read(keys.agentContactSeconds, metadata),
    renewals: read(keys.agentRenewals, metadata),
    freshMs: read(keys.agentFreshSeconds, metadata),
  };
}
