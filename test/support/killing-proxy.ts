/** A proxy in front of the API server, or of a pod, that has the process behind it killed after each of its writes. */
import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import type { Dispatcher } from "undici";
import { ApiProxy, type Asked, headersOf, type ProxyAddress, type Upstream } from "./forwarding.ts";

/** A write that was carried out. */
export interface CarriedOut {
  readonly method: string;
  /** Without a query. */
  readonly path: string;
  readonly body: string;
}

/** What a process is killed after. */
export interface Killer {
  /** False for a request that is passed on without further ado. */
  isWrite(method: string, path: string): boolean;
  /** False: the process goes on. */
  isFatal(write: CarriedOut): boolean;
  /** Called after a write, and before the process gets its answer. */
  kill(write: CarriedOut): void;
}

/** The writes of one process through all of its proxies: one at a time, and none after the one for which it is killed. */
export class WritesInTurn {
  #isClosed = false;
  #last: Promise<unknown> = Promise.resolve();

  /** Runs a write when all earlier ones have ended. Throws after a fatal one. `write`: resolves to whether it was fatal. */
  next(write: () => Promise<boolean>): Promise<void> {
    const turn = this.#last.then(async () => {
      if (this.#isClosed) throw new Error("the process is being killed");
      this.#isClosed = await write();
    });
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** The next process may write. */
  revive(): void {
    this.#isClosed = false;
  }
}

export class KillingProxy extends ApiProxy {
  readonly #killer: Killer;
  readonly #writes: WritesInTurn;

  private constructor(upstream: Upstream, killer: Killer, writes: WritesInTurn) {
    super(upstream);
    this.#killer = killer;
    this.#writes = writes;
  }

  /** @param at where it listens; by default at any port of 127.0.0.1 */
  static start(upstream: Upstream, killer: Killer, writes: WritesInTurn, at?: ProxyAddress): Promise<KillingProxy> {
    return new KillingProxy(upstream, killer, writes).listen(at);
  }

  protected async answer(asked: Asked, response: ServerResponse): Promise<void> {
    const { method, body = Buffer.of() } = asked;
    const { pathname: path } = new URL(asked.path, this.url);
    if (!this.#killer.isWrite(method, path)) {
      await reply(await asked.forward(), response);
      return;
    }
    await this.#writes.next(() => this.#carryOut(asked, { method, path, body: body.toString() }, response));
  }

  /** Resolves to true if the process is killed for it, which then gets no answer. */
  async #carryOut({ forward }: Asked, write: CarriedOut, response: ServerResponse): Promise<boolean> {
    const answer = await forward();
    if (answer.statusCode >= 300 || !this.#killer.isFatal(write)) {
      await reply(answer, response);
      return false;
    }
    await answer.body.dump();
    response.destroy();
    this.#killer.kill(write);
    return true;
  }
}

async function reply(answer: Dispatcher.ResponseData, response: ServerResponse): Promise<void> {
  response.writeHead(answer.statusCode, headersOf(answer));
  await pipeline(answer.body, response);
}
