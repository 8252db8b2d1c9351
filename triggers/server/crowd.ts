/** Chooses the connection that is ended when a port has too many, so that a single address cannot crowd out the others. Pure. */
import { isIPv6, type Socket } from "node:net";

/**
 * What a connection does, the first to go first:
 *
 * - `stalled`: its client sends a request, or takes an answer, more slowly than honest clients do;
 * - `fresh`: no request of it has been answered, and none has come whole;
 * - `idle`: its last request was answered;
 * - `moving`: the client sends its next request, or takes an answer;
 * - `working`: a whole request waits for its answer.
 */
export const standings = ["stalled", "fresh", "idle", "moving", "working"] as const;
export type ConnectionStanding = (typeof standings)[number];

/** The connections of one address, as {@link addressOf} has it. */
export interface Crowd {
  /** How many of them belong to clients that have not shown who they are. */
  unproven: number;
}

/** The fields of a connection that the choice uses. */
export interface Placed {
  readonly crowd: Crowd;
  readonly standing: ConnectionStanding;
  /** Monotonic time at which the connection began what it does, in milliseconds. */
  readonly sinceMs: number;
  /** Whether a whole request of it has been answered. */
  readonly isAnswered: boolean;
  /** Whether its client has shown who it is. The connections of other clients go first. */
  readonly isProved: boolean;
}

/** Addresses with no more than this share of the places count as equally crowded. */
const fewShare = 1 / 16;

/**
 * The connection that goes so that another one can stay; undefined if it is the newcomer itself.
 *
 * It is of the most crowded address. Addresses with few connections count alike: otherwise 500 addresses with two connections
 * each would crowd out an API server with ten. A request that waits for its answer is cut only for a less crowded address.
 */
export function chooseToGo<P extends Placed>(all: Iterable<P>, newcomer: P, most: number): P | undefined {
  const few = Math.max(1, Math.floor(most * fewShare));
  const sizeOf = ({ crowd }: Placed) => Math.max(few, crowd.unproven);
  const ownSize = sizeOf(newcomer);
  let chosen: P | undefined;
  let chosenSize = ownSize;
  for (const one of all) {
    const size = sizeOf(one);
    if (size < chosenSize || one.isProved || one === newcomer) continue;
    if (size === ownSize && one.standing === "working") continue;
    if (chosen === undefined || size > chosenSize || goesBefore(one, chosen)) [chosen, chosenSize] = [one, size];
  }
  return chosen;
}

function goesBefore(one: Placed, other: Placed): boolean {
  const rank = standings.indexOf(one.standing) - standings.indexOf(other.standing);
  if (rank !== 0) return rank < 0;
  if (one.isAnswered !== other.isAnswered) return other.isAnswered;
  return one.sinceMs < other.sinceMs;
}

/** Names a connection among all that are open at a port. */
export function placeOf({ remoteAddress, remotePort }: Pick<Socket, "remoteAddress" | "remotePort">): string {
  return `${remoteAddress} ${remotePort}`;
}

/** An IPv4 address, also one that is mapped into IPv6, or the first 64 bits of an IPv6 address: a host has all behind them. */
export function addressOf(remoteAddress: string | undefined): string {
  if (remoteAddress === undefined || !isIPv6(remoteAddress)) return remoteAddress ?? "";
  const groups = groupsOf(remoteAddress.replace(/%.*$/, ""));
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  const network = groups.slice(0, 4).map((group) => group.toString(16));
  const ipv4 = groups.slice(6).flatMap((group) => [group >> 8, group & 0xff]);
  return isMapped ? ipv4.join(".") : network.join(":");
}

/** The eight groups of 16 bits. */
function groupsOf(ipv6: string): number[] {
  // In a URL the last 32 bits are hexadecimal, even if the address has them as IPv4.
  const written = new URL(`http://[${ipv6}]`).hostname.slice(1, -1);
  const [left = [], right] = written.split("::").map((part) => part.split(":").filter(Boolean).map(readGroup));
  if (right === undefined) return left;
  return [...left, ...Array<number>(8 - left.length - right.length).fill(0), ...right];
}

function readGroup(text: string): number {
  return Number.parseInt(text, 16);
}
