/** The peers of an agent: the lists that a fence may count by, what their Leases say, and what they answer. */

import {
  agentAddresses,
  agentKey,
  agentPeers,
  agentPeersProposed,
  formatPeers,
  type Peer,
  parsePeers,
} from "../../shared/annotations/fencing-peers.ts";
import { fingerprintOf } from "../fingerprint.ts";
import type { LeaseAnnotations } from "./decide-renewal.ts";
import type { Outside, PeerAddress, PeerVerdict } from "./outside.ts";

/** So many drills count for the mode. */
const drillsThatCount = 3;
/** How often the Leases of peers are read whose address and key are known, in milliseconds. */
const refreshMs = 300_000;

export interface PeersSettings {
  readonly node: string;
  readonly bootId: string;
  /** The limit of a question to a peer, and of a read of its Lease (Q). */
  readonly peerTimeoutMs: number;
}

/** One peer with one key, as text. */
const idOf = (peer: Peer): string => formatPeers([peer]);

export class Peers {
  readonly #settings: PeersSettings;
  readonly #outside: Pick<Outside, "api" | "clock" | "peers">;
  /** As the last answer of the API server showed it; undefined until one has in this boot. */
  #stored: readonly Peer[] | undefined;
  /** As the next renewal writes it. It changes only while it is stored. */
  #wanted: readonly Peer[] | undefined;
  #proposed: readonly Peer[] | undefined;
  /** The list that was proposed when the last drill began. */
  #drilled: string | undefined;
  readonly #known = new Map<string, { readonly address: PeerAddress; readonly atMs: number }>();
  #drills: readonly ReadonlySet<string>[] = [];

  /** @param memory the texts of both lists, as an earlier process of this boot has left them */
  constructor(
    settings: PeersSettings,
    outside: Pick<Outside, "api" | "clock" | "peers">,
    memory: { readonly peers?: string | undefined; readonly wantedPeers?: string | undefined } = {},
  ) {
    this.#settings = settings;
    this.#outside = outside;
    this.#stored = memory.peers === undefined ? undefined : parsePeers(memory.peers);
    this.#wanted = memory.wantedPeers === undefined ? this.#stored : parsePeers(memory.wantedPeers);
  }

  /** Each list by which a fence may count, as names with fingerprints: two while the write of one is not acknowledged. */
  get lists(): readonly (readonly string[])[] {
    const lists = [this.#stored, this.#wanted].flatMap((list) => (list === undefined ? [] : [list.map(idOf)]));
    return lists[0]?.join() === lists[1]?.join() ? lists.slice(0, 1) : lists;
  }

  get drills(): readonly ReadonlySet<string>[] {
    return this.#drills;
  }

  /** For a process that takes over. */
  get memory(): { readonly peers: string | undefined; readonly wantedPeers: string | undefined } {
    return {
      peers: this.#stored && formatPeers(this.#stored),
      wantedPeers: this.#wanted && formatPeers(this.#wanted),
    };
  }

  /** The peers that are proposed have not been drilled yet. */
  get isDrillDue(): boolean {
    return this.#proposed !== undefined && formatPeers(this.#proposed) !== this.#drilled;
  }

  /** Notes what the API server shows of the Lease. */
  note(annotations: LeaseAnnotations): void {
    this.#stored = this.#parse(annotations[agentPeers.key] ?? "") ?? [];
    this.#wanted ??= this.#stored;
    this.#proposed = this.#parse(annotations[agentPeersProposed.key]);
  }

  /** The text of the list that the next renewal writes. A drilled proposal is adopted where no other write is open. */
  adopt(): string {
    const [stored, wanted] = [formatPeers(this.#stored ?? []), formatPeers(this.#wanted ?? [])];
    if (this.#stored === undefined || stored !== wanted || this.#proposed === undefined || this.isDrillDue)
      return wanted;
    this.#wanted = this.#proposed;
    return formatPeers(this.#wanted);
  }

  /** Asks each peer whether it is there. Reads the Leases of those that are not known, or not of late. Never rejects. */
  async drill(): Promise<void> {
    const proposed = this.#proposed === undefined ? undefined : formatPeers(this.#proposed);
    const peers = this.#all();
    await this.#readLeases(peers);
    const answered = await this.#ofEach(peers, (address) =>
      this.#outside.peers.drill(address, this.#settings.peerTimeoutMs),
    );
    const ids = [...answered].flatMap(([id, isThere]) => (isThere ? [id] : []));
    this.#drills = [...this.#drills, new Set(ids)].slice(-drillsThatCount);
    this.#drilled = proposed;
  }

  /** The answers about this boot, by name and fingerprint; those that did not answer are left out. Never rejects. */
  async ask(): Promise<ReadonlyMap<string, PeerVerdict>> {
    const { node, bootId, peerTimeoutMs } = this.#settings;
    const answers = await this.#ofEach(this.#all(), (address) =>
      this.#outside.peers.ask(address, { node, bootId }, peerTimeoutMs),
    );
    return new Map([...answers].flatMap(([id, verdict]) => (verdict === undefined ? [] : [[id, verdict] as const])));
  }

  /** A list that does not parse counts as absent, and so does a list that names this node. */
  #parse(text: string | undefined): readonly Peer[] | undefined {
    const peers = text === undefined ? undefined : parsePeers(text);
    return peers?.some(({ name }) => name === this.#settings.node) === true ? undefined : peers;
  }

  #all(): readonly Peer[] {
    const all = [...(this.#stored ?? []), ...(this.#wanted ?? []), ...(this.#proposed ?? [])];
    return [...new Map(all.map((peer) => [idOf(peer), peer])).values()];
  }

  async #readLeases(peers: readonly Peer[]): Promise<void> {
    const nowMs = this.#outside.clock.nowMs();
    const ids = new Set(peers.map(idOf));
    for (const id of this.#known.keys()) if (!ids.has(id)) this.#known.delete(id);
    const isRecent = (peer: Peer): boolean => {
      const known = this.#known.get(idOf(peer));
      return known !== undefined && nowMs - known.atMs < refreshMs;
    };
    const due = peers.filter((peer) => !isRecent(peer));
    await Promise.all(due.map((peer) => this.#readLease(peer, nowMs)));
  }

  /** A key with another fingerprint is of another process, and is not taken. */
  async #readLease(peer: Peer, nowMs: number): Promise<void> {
    const { value } = await this.#outside.api.readLeaseOf(peer.name, this.#settings.peerTimeoutMs);
    if (value === undefined) return;
    const publicKey = agentKey.parse(value.annotations[agentKey.key] ?? "");
    const addresses = agentAddresses.parse(value.annotations[agentAddresses.key] ?? "");
    const isListed = publicKey !== undefined && fingerprintOf(publicKey) === peer.fingerprint;
    if (!isListed || addresses === undefined) this.#known.delete(idOf(peer));
    else this.#known.set(idOf(peer), { address: { name: peer.name, publicKey, addresses }, atMs: nowMs });
  }

  /** What each peer answers whose address is known. */
  async #ofEach<T>(
    peers: readonly Peer[],
    send: (address: PeerAddress) => Promise<T>,
  ): Promise<ReadonlyMap<string, T>> {
    const answers = peers.map(async (peer) => {
      const known = this.#known.get(idOf(peer));
      return known === undefined ? [] : [[idOf(peer), await send(known.address)] as const];
    });
    return new Map((await Promise.all(answers)).flat());
  }
}
