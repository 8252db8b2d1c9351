/**
 * Publishers with confirms and consumers of one queue, which reconnect, and remember which messages were confirmed and
 * received.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Connection } from "rabbitmq-client";
import { eventually } from "../controlplane/api.ts";

/** Time that a consumer works on one message. */
const WORK_MS = 100;
const BETWEEN_MS = 20;
const AT_ONCE = 200;

export class Traffic {
  readonly #queue: string;
  readonly #connections: Connection[] = [];
  readonly #addresses: readonly string[];
  readonly #confirmed = new Set<number>();
  readonly #received = new Set<number>();
  #publishing: Promise<unknown> = Promise.resolve();
  #isPublishing = false;
  #isHurried = false;
  #next = 0;
  #lastConfirmMs = 0;
  /** Number of failed publishings, which may have arrived, and do not count as confirmed. */
  unconfirmed = 0;
  deliveries = 0;
  /** The longest time without a confirm while publishing. */
  longestGapMs = 0;

  constructor(addresses: readonly string[], queue: string) {
    this.#addresses = addresses;
    this.#queue = queue;
  }

  get confirmed(): number {
    return this.#confirmed.size;
  }

  /** Confirmed messages that were never received. */
  get missing(): readonly number[] {
    return [...this.#confirmed].filter((id) => !this.#received.has(id));
  }

  /** Publishes this many persistent messages, each of them confirmed. */
  async fill(count: number): Promise<void> {
    const publisher = this.#connect().createPublisher({ confirm: true, maxAttempts: 5 });
    const last = this.#next + count;
    const worker = async () => {
      while (this.#next < last) await this.#publish(publisher);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    await publisher.close();
  }

  /** Starts publishers and consumers, each on a connection of its own. */
  start(publishers: number, consumers: number): void {
    this.#isPublishing = true;
    this.#lastConfirmMs = performance.now();
    this.#publishing = Promise.all(
      Array.from({ length: publishers }, async () => {
        const publisher = this.#connect().createPublisher({ confirm: true });
        while (this.#isPublishing) {
          await this.#publish(publisher).catch(() => void this.unconfirmed++);
          await delay(BETWEEN_MS);
        }
      }),
    );
    for (let n = 0; n < consumers; n++) {
      const consumer = this.#connect().createConsumer(
        { queue: this.#queue, queueOptions: { passive: true }, qos: { prefetchCount: 10 }, concurrency: 10 },
        async ({ body }) => {
          this.deliveries++;
          this.#received.add(Number(body));
          if (!this.#isHurried) await delay(WORK_MS);
        },
      );
      consumer.on("error", () => {});
    }
  }

  /**
   * Stops publishing. Resolves when all confirmed messages were received. Throws, with the number of missing ones, if they
   * were not.
   */
  async finish(timeoutMs: number): Promise<void> {
    this.#isPublishing = false;
    await this.#publishing;
    this.#isHurried = true;
    await eventually("all confirmed messages are received", timeoutMs, async () => {
      const { missing } = this;
      if (missing.length > 0)
        throw new Error(`${missing.length} of ${this.confirmed} are missing, such as ${missing[0]}`);
      return true;
    });
  }

  close(): void {
    this.#isPublishing = false;
    for (const connection of this.#connections) connection.unsafeDestroy();
  }

  async #publish(publisher: ReturnType<Connection["createPublisher"]>): Promise<void> {
    const id = this.#next++;
    await publisher.send({ routingKey: this.#queue, durable: true }, String(id));
    this.#confirmed.add(id);
    const nowMs = performance.now();
    if (this.#isPublishing) this.longestGapMs = Math.max(this.longestGapMs, nowMs - this.#lastConfirmMs);
    this.#lastConfirmMs = nowMs;
  }

  #connect(): Connection {
    const connection = new Connection({
      hosts: [...this.#addresses],
      username: "guest",
      password: "guest",
      retryLow: 100,
      retryHigh: 1_000,
      acquireTimeout: 60_000,
    });
    // The client reconnects by itself.
    connection.on("error", () => {});
    this.#connections.push(connection);
    return connection;
  }
}
