/** What this agent answers its peers. They share its reads at the API server, which are limited, because any host may ask. */

import { agentBootId } from "../../shared/annotations/fencing.ts";
import { type AskedLease, type ContactView, decideAnswer, isOutOfContact } from "./decide-excuse.ts";
import { fenceOfBoot } from "./decide-renewal.ts";
import type { AgentApi, AgentLease, BootClock, PeerVerdict } from "./outside.ts";

/** Over all nodes, of Leases and of Nodes together. */
export const mostReadsPerSecond = 5;
const secondMs = 1_000;

export interface PeerAnswersOptions {
  readonly clock: BootClock;
  readonly api: Pick<AgentApi, "readLeaseOf" | "readTaintOf">;
  /** For how long one success is contact now (X), in milliseconds. */
  readonly freshMs: () => number;
  /** The limit of one read, in milliseconds. */
  readonly renewTimeoutMs: number;
  /** When this process started, by the clock. */
  readonly startedMs: number;
  /** When the last request of this agent that the API server answered was sent, by the clock; undefined if none was. */
  readonly lastSuccessMs: () => number | undefined;
}

/** One read of a Lease, for all questions that came before it was sent. */
interface LeaseReading {
  readonly lease: AgentLease | "unread" | "missing";
  /** One read of the Node's taint, which the first call sends. */
  readonly readTaint: () => Promise<boolean | undefined>;
}

export class PeerAnswers {
  readonly #options: PeerAnswersOptions;
  /** By node, the read that is under way. */
  readonly #running = new Map<string, Promise<LeaseReading>>();
  /** By node, the read that is sent once the one under way has ended. */
  readonly #waiting = new Map<string, Promise<LeaseReading>>();
  /** When the last reads were sent. */
  readonly #sentMs: number[] = [];

  constructor(options: PeerAnswersOptions) {
    this.#options = options;
  }

  /** Answers one question; `node` is the name of a Node. Rejects only if a request does. */
  async answer(node: string, bootId: string): Promise<PeerVerdict> {
    const { clock, startedMs, freshMs, lastSuccessMs } = this.#options;
    const contact: ContactView = {
      nowMs: clock.nowMs(),
      startedMs,
      freshMs: freshMs(),
      lastSuccessMs: lastSuccessMs(),
    };
    const lease = isOutOfContact(contact) ? "unread" : await this.#readLease(node, bootId);
    const verdict = decideAnswer({ ...contact, bootId, lease });
    const fence = typeof lease === "string" ? undefined : lease.fence;
    return verdict === "stop" && fence !== undefined ? { verdict, fenceId: fence.fenceId } : { verdict };
  }

  async #readLease(node: string, bootId: string): Promise<AskedLease | "unread" | "missing"> {
    const { lease, readTaint } = await this.#share(node);
    if (typeof lease === "string") return lease;
    const fence = fenceOfBoot(lease.annotations, bootId);
    const hasTaint = fence === undefined ? undefined : await readTaint();
    return { bootId: agentBootId.parse(lease.annotations[agentBootId.key] ?? ""), fence, hasTaint };
  }

  /** A read that has not been sent yet. Those that are under way may be older than the question. */
  #share(node: string): Promise<LeaseReading> {
    const waiting = this.#waiting.get(node);
    if (waiting !== undefined) return waiting;
    const running = this.#running.get(node);
    if (running === undefined) return this.#start(node);
    const start = () => {
      this.#waiting.delete(node);
      return this.#start(node);
    };
    const next = running.then(start, start);
    this.#waiting.set(node, next);
    return next;
  }

  /** Sends a read at once. */
  #start(node: string): Promise<LeaseReading> {
    const read = this.#send(node).finally(() => {
      if (this.#running.get(node) === read) this.#running.delete(node);
    });
    this.#running.set(node, read);
    return read;
  }

  async #send(node: string): Promise<LeaseReading> {
    const { api, renewTimeoutMs } = this.#options;
    let taint: Promise<boolean | undefined> | undefined;
    const readTaint = () => {
      taint ??= this.#mayRead() ? api.readTaintOf(node, renewTimeoutMs).then(({ value }) => value) : undefined;
      return taint ?? Promise.resolve(undefined);
    };
    if (!this.#mayRead()) return { lease: "unread", readTaint };
    const { status, value } = await api.readLeaseOf(node, renewTimeoutMs);
    return { lease: value ?? (status === 404 ? "missing" : "unread"), readTaint };
  }

  /** True if one more read stays within the limit; it then counts. */
  #mayRead(): boolean {
    const nowMs = this.#options.clock.nowMs();
    const [oldestMs] = this.#sentMs;
    const isFull = this.#sentMs.length >= mostReadsPerSecond;
    if (isFull && oldestMs !== undefined && nowMs - oldestMs < secondMs) return false;
    if (isFull) this.#sentMs.shift();
    this.#sentMs.push(nowMs);
    return true;
  }
}
