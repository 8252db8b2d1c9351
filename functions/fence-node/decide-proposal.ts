/** Which peers each agent should have. Two processes that see the same propose the same. Pure. */

import { formatPeers, mostPeers, type Peer } from "../shared/annotations/fencing-peers.ts";

/** An agent that has been silent for longer is no new peer of any node, in milliseconds. */
const joinsWithinMs = 60_000;
/** An agent that has been silent for longer is replaced, in milliseconds. */
export const staysForMs = 120_000;
/** A node answers so many at most. */
const mostAskers = 24;
/** So many agents are compared for one list. */
const mostCandidates = 64;

/** The agent of one node. */
export interface SurveyedAgent {
  readonly name: string;
  /** Its `topology.kubernetes.io/zone`; empty where its Node names none. */
  readonly zone: string;
  readonly isControlPlane: boolean;
  /** Of the key in its Lease; undefined where it has none, or no address at which peers can ask it. */
  readonly fingerprint: string | undefined;
  /** It has renewed its Lease while this process observed it. */
  readonly isSeenRenewing: boolean;
  /** For how long this process has seen no renewal, in milliseconds. */
  readonly silentMs: number;
  /** The list that was proposed to it last; without one the list that it has. */
  readonly peers: readonly Peer[];
}

/** The lists that differ from what is proposed, by node. */
export function decideProposals(agents: readonly SurveyedAgent[]): ReadonlyMap<string, readonly Peer[]> {
  const order = inTurns(agents);
  const poolOf = poolsOf(order);
  const draft = new Draft();
  // What stays comes first, so that a node that joins takes no place of another one.
  for (const agent of order) {
    const { usable } = poolOf(agent);
    const kept = agent.peers.flatMap((peer) => usable.get(formatPeers([peer])) ?? []);
    // Any client that may write a Lease may have written a list that names its own node: the agent would never take it over.
    const others = kept.filter((peer) => peer !== agent && draft.isFree(peer));
    draft.set(agent, spread(agent, others, []));
  }
  for (const [at, agent] of order.entries()) {
    const list = draft.listOf(agent);
    const { joining } = poolOf(agent);
    const mayTake = (peer: SurveyedAgent): boolean => joining.has(peer) && !list.includes(peer) && draft.isFree(peer);
    draft.set(agent, spread(agent, draft.leastAsked(nextOf(order, at, mayTake)), list));
  }
  return new Map(
    order.flatMap((agent): (readonly [string, readonly Peer[]])[] => {
      const list = draft.listOf(agent).map(peerOf);
      return formatPeers(list) === formatPeers(agent.peers) ? [] : [[agent.name, list]];
    }),
  );
}

const peerOf = ({ name, fingerprint = "" }: SurveyedAgent): Peer => ({ name, fingerprint });

/** The agents so that neighbours are of different zones, as far as there are any: the next ones after a node are good peers. */
function inTurns(agents: readonly SurveyedAgent[]): readonly SurveyedAgent[] {
  const byName = agents.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const counts = new Map<string, number>();
  const ranked = byName.map((agent) => {
    const rank = counts.get(agent.zone) ?? 0;
    counts.set(agent.zone, rank + 1);
    return { agent, rank };
  });
  return ranked.sort((one, other) => one.rank - other.rank).map(({ agent }) => agent);
}

/** The agents that may be peers of one: those that may stay in a list, by name and key, and those that may join it. */
interface PeerPool {
  readonly usable: ReadonlyMap<string, SurveyedAgent>;
  readonly joining: ReadonlySet<SurveyedAgent>;
}

/**
 * A control-plane node that is started again takes the API server and its own answer away at once. So such nodes are peers only
 * where no other node is one, and then only if there are two.
 */
function poolsOf(agents: readonly SurveyedAgent[]): (agent: SurveyedAgent) => PeerPool {
  const usable = agents.filter(({ fingerprint, silentMs }) => fingerprint !== undefined && silentMs < staysForMs);
  const workers = usable.filter(({ isControlPlane }) => !isControlPlane);
  const hasTwo = agents.filter(({ isControlPlane }) => isControlPlane).length > 1;
  const [ofWorkers, ofAll] = [poolFrom(workers), poolFrom(hasTwo ? usable : [])];
  return (agent) => (workers.some((worker) => worker !== agent) ? ofWorkers : ofAll);
}

function poolFrom(peers: readonly SurveyedAgent[]): PeerPool {
  const mayJoin = (peer: SurveyedAgent): boolean => peer.isSeenRenewing && peer.silentMs < joinsWithinMs;
  const usable = new Map(peers.map((peer) => [formatPeers([peerOf(peer)]), peer]));
  return { usable, joining: new Set(peers.filter(mayJoin)) };
}

/** The agents after a position that may be taken, in turn and not all of them where there are many. */
function nextOf(
  order: readonly SurveyedAgent[],
  at: number,
  mayTake: (peer: SurveyedAgent) => boolean,
): readonly SurveyedAgent[] {
  const next: SurveyedAgent[] = [];
  for (let step = 1; step < order.length && next.length < mostCandidates; step++) {
    const peer = order[(at + step) % order.length];
    if (peer !== undefined && mayTake(peer)) next.push(peer);
  }
  return next;
}

/** The lists under way, and how many nodes ask each agent by them. */
class Draft {
  readonly #lists = new Map<SurveyedAgent, readonly SurveyedAgent[]>();
  readonly #askers = new Map<SurveyedAgent, number>();

  listOf(agent: SurveyedAgent): readonly SurveyedAgent[] {
    return this.#lists.get(agent) ?? [];
  }

  set(agent: SurveyedAgent, list: readonly SurveyedAgent[]): void {
    for (const peer of this.listOf(agent)) this.#askers.set(peer, this.#askersOf(peer) - 1);
    for (const peer of list) this.#askers.set(peer, this.#askersOf(peer) + 1);
    this.#lists.set(agent, list);
  }

  readonly isFree = (peer: SurveyedAgent): boolean => this.#askersOf(peer) < mostAskers;

  /** Those that fewest nodes ask come first. */
  leastAsked(peers: readonly SurveyedAgent[]): readonly SurveyedAgent[] {
    return peers.toSorted((one, other) => this.#askersOf(one) - this.#askersOf(other));
  }

  #askersOf(peer: SurveyedAgent): number {
    return this.#askers.get(peer) ?? 0;
  }
}

/**
 * The list with more peers: from the zones that have fewest in it, and at most a third of its own zone, because a zone that is
 * cut off as a whole must not excuse its nodes. Where no agent of another zone is free, all may be of its own: a fence is then
 * possible for a node that is cut off alone.
 */
function spread(
  { zone: own }: SurveyedAgent,
  more: readonly SurveyedAgent[],
  list: readonly SurveyedAgent[],
): readonly SurveyedAgent[] {
  const isElsewhere = ({ zone }: SurveyedAgent): boolean => zone !== own;
  const here = (one: SurveyedAgent): boolean => !isElsewhere(one);
  // Those of its own zone that it has keep their places.
  const staying = Math.min(list.filter(here).length, mostPeers / 3);
  const elsewhere = fill(list.filter(isElsewhere), more.filter(isElsewhere), mostPeers - staying);
  if (elsewhere.length === 0) return fill(list.filter(here), more.filter(here), mostPeers);
  const most = Math.min(mostPeers - elsewhere.length, Math.floor(elsewhere.length / 2));
  return [...elsewhere, ...fill(list.filter(here), more.filter(here), most)];
}

/** At most so many, those of the list first, and then each from the zone that has fewest. */
function fill(list: readonly SurveyedAgent[], more: readonly SurveyedAgent[], most: number): readonly SurveyedAgent[] {
  const filled = list.slice(0, most);
  const left = [...more];
  const countOf = (zone: string): number => filled.filter((one) => one.zone === zone).length;
  while (filled.length < most && left.length > 0) {
    const fewest = Math.min(...left.map(({ zone }) => countOf(zone)));
    const at = left.findIndex(({ zone }) => countOf(zone) === fewest);
    filled.push(...left.splice(at, 1));
  }
  return filled;
}
