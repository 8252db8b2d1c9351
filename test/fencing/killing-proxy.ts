/** A proxy in front of the API server that has the process behind it killed after each of its writes. */
import { readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { ApiProxy, type Asked, headersOf } from "../support/forwarding.ts";

/** A write that the API server has carried out. */
export interface CarriedOut {
  readonly method: string;
  /** Without a query. */
  readonly path: string;
  readonly body: string;
}

/** What a process is killed after. */
export interface Killer {
  /** False: the process goes on. */
  isFatal(write: CarriedOut): boolean;
  /** Called after a write, and before the process gets its answer. */
  kill(write: CarriedOut): void;
}

/** Of Nodes and Leases: Events are no state of a fence. */
const isOfFence = (method: string, path: string): boolean => method !== "GET" && /\/(nodes|leases)(\/|$)/.test(path);

export class KillingProxy extends ApiProxy {
  readonly #killer: Killer;
  /** One write alone is under way, and none after the one for which the process is killed. */
  #isClosed = false;

  private constructor({ url, caFile }: Pick<ControlPlane, "url" | "caFile">, killer: Killer) {
    super({ url, ca: readFileSync(caFile, "utf8") });
    this.#killer = killer;
  }

  static start(controlPlane: ControlPlane, killer: Killer): Promise<KillingProxy> {
    return new KillingProxy(controlPlane, killer).listen();
  }

  /** The next process may write. */
  revive(): void {
    this.#isClosed = false;
  }

  protected async answer(
    { method, path, body = Buffer.of(), forward }: Asked,
    response: ServerResponse,
  ): Promise<void> {
    const { pathname } = new URL(path, this.url);
    const isWrite = isOfFence(method, pathname);
    if (isWrite && this.#isClosed) {
      response.destroy();
      return;
    }
    if (isWrite) this.#isClosed = true;
    const answer = await forward();
    const write = { method, path: pathname, body: body.toString() };
    if (isWrite && answer.statusCode < 300 && this.#killer.isFatal(write)) {
      await answer.body.dump();
      response.destroy();
      this.#killer.kill(write);
      return;
    }
    if (isWrite) this.revive();
    response.writeHead(answer.statusCode, headersOf(answer));
    await pipeline(answer.body, response);
  }
}
