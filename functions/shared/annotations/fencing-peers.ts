/** The peers of a node, by which time becomes evidence of a fence: their names, keys and addresses as Leases have them. */

import { annotationOn } from "./entry.ts";

/** An agent whose answers count, by the name of its Node and the key of its process. */
export interface Peer {
  readonly name: string;
  /** Of the key of its boot: the first 16 hex digits of the SHA-256 of the raw public key. */
  readonly fingerprint: string;
}

/** More do not make an answer surer, and each is asked every minute. */
export const mostPeers = 12;

const name = /^[a-z0-9]([-a-z0-9.]{0,245}[a-z0-9])?$/;
const fingerprint = /^[0-9a-f]{16}$/;

/** No list in which a name stands twice: it would weigh twice. */
export function parsePeers(text: string): readonly Peer[] | undefined {
  const peers = (text === "" ? [] : text.split(" ")).map((one): Peer => {
    const [peer = "", print = "", ...more] = one.split("=");
    return { name: more.length === 0 ? peer : "", fingerprint: print };
  });
  const isWhole = peers.every((one) => name.test(one.name) && fingerprint.test(one.fingerprint));
  const isUnique = new Set(peers.map((one) => one.name)).size === peers.length;
  return isWhole && isUnique && peers.length <= mostPeers ? peers : undefined;
}

/** Sorted by name: two lists of the same peers have the same text. */
export function formatPeers(peers: readonly Peer[]): string {
  return peers
    .map((one) => `${one.name}=${one.fingerprint}`)
    .sort()
    .join(" ");
}

/** The raw public key of Ed25519: 32 bytes. */
function parseKey(text: string): string | undefined {
  return /^[\w-]{43}$/.test(text) ? text : undefined;
}

/** One address and port of an agent. */
export interface AgentAddress {
  /** Of IPv4 or IPv6, without brackets. */
  readonly host: string;
  readonly port: number;
}

/** A host has two at most, one of each family; more cost a peer time. */
export const mostAddresses = 4;

function parseAddresses(text: string): readonly AgentAddress[] | undefined {
  const addresses = text.split(" ").map((one): AgentAddress => {
    const [, six, four, port] = /^(?:\[([\da-fA-F:.]{2,45})\]|([\d.]{7,15})):(\d{1,5})$/.exec(one) ?? [];
    return { host: six ?? four ?? "", port: Number(port) };
  });
  const isWhole = addresses.every(({ host, port }) => host !== "" && port > 0 && port < 65_536);
  return isWhole && addresses.length <= mostAddresses ? addresses : undefined;
}

export function formatAddresses(addresses: readonly AgentAddress[]): string {
  return addresses.map(({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`).join(" ");
}

const inAgentLease = annotationOn("Lease");
const grammarOfPeers = `NAME=FINGERPRINT, at most ${mostPeers} with a blank between two, and no name twice`;

export const agentPeers = inAgentLease("sluice.dev/agent-peers", parsePeers, {
  grammar: grammarOfPeers,
  fallback: "time is no evidence for its node",
  meaning: "the peers whose answers the agent takes; written by it",
});

export const agentPeersProposed = inAgentLease("sluice.dev/agent-peers-proposed", parsePeers, {
  grammar: grammarOfPeers,
  fallback: "the agent keeps the peers that it has",
  meaning: "the peers that the agent is to take over",
});

export const agentKey = inAgentLease("sluice.dev/agent-key", parseKey, {
  grammar: "a raw public key of Ed25519 in base64url",
  fallback: "its answers count for nothing, and neither does its contact",
  meaning: "the key by which peers know the answers of this boot; written by the agent",
});

export const agentAddresses = inAgentLease("sluice.dev/agent-address", parseAddresses, {
  grammar: `ADDRESS:PORT or [ADDRESS]:PORT, at most ${mostAddresses} with a blank between two`,
  fallback: "no peer can ask it",
  meaning: "where peers ask the agent; written by it",
});

/** What an agent says of its peers and to them, in its Lease. */
export const peerEntries = [agentPeers, agentKey, agentAddresses] as const;
