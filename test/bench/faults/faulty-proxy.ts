/** The API server as one contender sees it: it may refuse requests for a while, or its watches may stand still. */
import type { ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { ApiProxy, type Asked, headersOf, kindOf, type Upstream } from "../../support/forwarding.ts";

interface OpenWatch {
  readonly kind: string | undefined;
  /** By `performance.now()`. */
  stillUntilMs: number;
}

/** The refusal of priority and fairness. */
const tooMany = JSON.stringify({
  ...{ kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure" },
  ...{ message: "too many requests, please try again later", reason: "TooManyRequests", code: 429 },
  details: { retryAfterSeconds: 1 },
});

export class FaultyProxy extends ApiProxy {
  readonly #authorization: string;
  readonly #watches = new Set<OpenWatch>();
  #refusesUntilMs = Number.NEGATIVE_INFINITY;
  #refused = 0;

  private constructor(upstream: Upstream, token: string) {
    super(upstream);
    this.#authorization = `Bearer ${token}`;
  }

  /** Resolves when it listens. client-go sends no token over plain HTTP, so the proxy adds it. */
  static start({ token, ...upstream }: Upstream & { readonly token: string }): Promise<FaultyProxy> {
    return new FaultyProxy(upstream, token).listen();
  }

  /** Number of requests that were answered with 429. */
  get refused(): number {
    return this.#refused;
  }

  /** Delays the events of the open watches of a kind by `forMs`, in order. Returns the number of these watches. */
  standStill(kind: string, forMs: number): number {
    const own = [...this.#watches].filter((watch) => watch.kind === kind);
    for (const watch of own) watch.stillUntilMs = performance.now() + forMs;
    return own.length;
  }

  /** For `forMs` answers each request with 429 and a retry after a second. Open watches go on. */
  refuse(forMs: number): void {
    this.#refusesUntilMs = performance.now() + forMs;
  }

  protected async answer({ path, forward }: Asked, response: ServerResponse): Promise<void> {
    if (performance.now() < this.#refusesUntilMs) {
      this.#refused++;
      response.writeHead(429, { "content-type": "application/json", "retry-after": "1" }).end(tooMany);
      return;
    }
    const answer = await forward({ authorization: this.#authorization });
    response.writeHead(answer.statusCode, headersOf(answer));
    const { searchParams, pathname } = new URL(path, this.url);
    const isWatch = answer.statusCode === 200 && /^(true|1)$/.test(searchParams.get("watch") ?? "");
    return isWatch ? this.#forwardWatch(kindOf(pathname), answer.body, response) : pipeline(answer.body, response);
  }

  async #forwardWatch(kind: string | undefined, source: Readable, response: ServerResponse): Promise<void> {
    const watch: OpenWatch = { kind, stillUntilMs: Number.NEGATIVE_INFINITY };
    this.#watches.add(watch);
    response.flushHeaders();
    const delayed = async function* (): AsyncGenerator<Uint8Array> {
      for await (const bytes of source as AsyncIterable<Uint8Array>) {
        const restMs = watch.stillUntilMs - performance.now();
        if (restMs > 0) await delay(restMs);
        yield bytes;
      }
    };
    try {
      await pipeline(delayed, response);
    } finally {
      this.#watches.delete(watch);
      source.destroy();
    }
  }
}
