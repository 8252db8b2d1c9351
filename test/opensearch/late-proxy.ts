/** A proxy in front of a pod, on which one request of a function stays for a long time, as in a network that is late. */
import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { ApiProxy, type Asked, headersOf, type ProxyAddress, type Upstream } from "../support/forwarding.ts";

export interface LateRequest {
  isIt(asked: Asked): boolean;
  /** Called once, when the proxy has the request. */
  onKept(): void;
}

export class LateProxy extends ApiProxy {
  readonly #late: LateRequest;
  readonly #kept = Promise.withResolvers<void>();
  readonly #forwarding = Promise.withResolvers<void>();
  readonly #answered = Promise.withResolvers<number>();
  #hasKept = false;

  private constructor(upstream: Upstream, late: LateRequest) {
    super(upstream);
    this.#late = late;
  }

  static start(upstream: Upstream, at: ProxyAddress, late: LateRequest): Promise<LateProxy> {
    return new LateProxy(upstream, late).listen(at);
  }

  /** Resolves when it has the request. */
  get kept(): Promise<void> {
    return this.#kept.promise;
  }

  /** Forwards the request. Resolves to the status of its answer. */
  deliver(): Promise<number> {
    this.#forwarding.resolve();
    return this.#answered.promise;
  }

  protected async answer(asked: Asked, response: ServerResponse): Promise<void> {
    const isKept = !this.#hasKept && this.#late.isIt(asked);
    if (isKept) {
      this.#hasKept = true;
      this.#late.onKept();
      this.#kept.resolve();
      await this.#forwarding.promise;
    }
    const answer = await asked.forward();
    if (isKept) this.#answered.resolve(answer.statusCode);
    response.writeHead(answer.statusCode, headersOf(answer));
    await pipeline(answer.body, response);
  }
}
