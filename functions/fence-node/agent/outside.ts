/** What the agent gets from outside: the simulation has its own. */
import type { AgentAddress } from "../../shared/annotations/fencing-peers.ts";
import type { BootHistory } from "./decide-boots.ts";
import type { PeerAnswer } from "./decide-excuse.ts";
import type { ExplicitOnlyReason, OwnNode } from "./decide-mode.ts";
import type { LeaseAnnotations, StoredTimes } from "./decide-renewal.ts";

/** The boottime clock of the machine, in milliseconds. It also counts the time that the machine is suspended. */
export interface BootClock {
  nowMs(): number;
}

/** The agent's Lease, as an answer showed it. */
export interface AgentLease {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly annotations: LeaseAnnotations;
}

export interface ApiAnswer<T> {
  /** Status of HTTP; 0 if no answer came in time, or one that cannot be read. */
  readonly status: number;
  /** What went wrong, where `status` is 0 or above 299. */
  readonly message: string;
  /** Undefined unless the status is 2xx. */
  readonly value: T | undefined;
}

/** The requests of the agent. Each ends within `timeoutMs`, and none rejects. */
export interface AgentApi {
  readLease(timeoutMs: number): Promise<ApiAnswer<AgentLease>>;
  createLease(annotations: LeaseAnnotations, timeoutMs: number): Promise<ApiAnswer<AgentLease>>;
  /** Conditional on the uid and the resourceVersion of `base`. */
  patchLease(base: AgentLease, annotations: LeaseAnnotations, timeoutMs: number): Promise<ApiAnswer<AgentLease>>;
  /** What the Node of this machine says for the mode. */
  readOwnNode(timeoutMs: number): Promise<ApiAnswer<OwnNode>>;
  /** Whether the Node has the taint of a fence. */
  readNodeTaint(timeoutMs: number): Promise<ApiAnswer<boolean>>;
  /** The Lease of another node's agent. `node` is the name of a Node. */
  readLeaseOf(node: string, timeoutMs: number): Promise<ApiAnswer<AgentLease>>;
  /** Whether that Node has the taint of a fence. */
  readTaintOf(node: string, timeoutMs: number): Promise<ApiAnswer<boolean>>;
}

/** An agent that is a peer: its Node, the key of its boot, and where it listens. */
export interface PeerAddress {
  readonly name: string;
  readonly publicKey: string;
  readonly addresses: readonly AgentAddress[];
}

export interface PeerVerdict {
  readonly verdict: PeerAnswer;
  /** The fence that is armed for the boot: present for `stop` alone. */
  readonly fenceId?: string | undefined;
}

/** The requests to peers. Each ends within `timeoutMs`, and none rejects. */
export interface PeerRequests {
  /** What the peer answers about this boot; undefined unless an answer came that it has signed for this very question. */
  ask(
    peer: PeerAddress,
    question: { readonly node: string; readonly bootId: string },
    timeoutMs: number,
  ): Promise<PeerVerdict | undefined>;
  /** True if the peer has answered, and signed, a request that costs it no call to the API server. */
  drill(peer: PeerAddress, timeoutMs: number): Promise<boolean>;
}

/** A watchdog. All of it is synchronous, so that nothing comes between a decision and its write. */
export interface Watchdog {
  /** Time after which it resets the machine, in milliseconds, or why there is none. It reads that anew. */
  check(): number | ExplicitOnlyReason;
  /** True if it cannot be stopped. */
  isNoWayOut(): boolean;
  /** Starts it, or takes over one that runs. Throws an error of the system. */
  open(): void;
  /** Throws an error of the system. */
  feed(): void;
  /** Stops it. Throws an error of the system. */
  disarm(): void;
}

/** What an agent that is started again in one boot goes on with. */
export interface BootMemory {
  readonly bootId: string;
  readonly permitMs?: number | undefined;
  readonly renewals?: number | undefined;
  /** Value of `fence-armed`, once it has named this boot. */
  readonly armed?: string | undefined;
  readonly isTainted?: boolean | undefined;
  /** True from the start of the device to an orderly stop. */
  readonly isDeviceStarted?: boolean | undefined;
  /** The agent behaves as `armed`: the API server may have its word for it. */
  readonly isArmed?: boolean | undefined;
  /** The times that the Lease has of this boot. */
  readonly storedTimes?: StoredTimes | undefined;
  /** The list of peers as it is stored, and as a renewal may have written it. */
  readonly peers?: string | undefined;
  readonly wantedPeers?: string | undefined;
  /** The key of this boot. */
  readonly publicKey?: string | undefined;
  readonly secret?: string | undefined;
}

/** Where an agent keeps something. Neither throws. */
export interface BootStore<T> {
  /** Undefined if nothing is there that can be read. */
  read(): T | undefined;
  /** @param isDurable it outlasts a reset of the machine right after the call; default: the system writes it to disk later */
  write(memory: T, isDurable?: boolean): void;
}

export type AgentLog = (level: "info" | "warn", message: string) => void;

export interface Outside {
  readonly bootId: string;
  readonly clock: BootClock;
  readonly api: AgentApi;
  readonly watchdog: Watchdog;
  readonly store: BootStore<BootMemory>;
  readonly history: BootStore<BootHistory>;
  readonly peers: PeerRequests;
  readonly log: AgentLog;
  /** Resets the machine at once; absent: nothing but the watchdog can. Throws an error of the system. */
  readonly reset?: (() => void) | undefined;
}
