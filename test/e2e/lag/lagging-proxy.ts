/**
 * An API server as somebody sees it whose watches lag: requests pass at once, and what watches tell comes late. It stands
 * before one process of Sluice alone; everybody else asks the API server itself.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { type Dispatcher, Pool } from "undici";
import { type Lag, listDelayOf, phasesOf } from "./delays.ts";
import { passLate } from "./held-stream.ts";

export interface LaggingProxyOptions {
  /** Of the API server. */
  readonly url: string;
  /** Who signed its certificate; not needed for plain HTTP. */
  readonly ca?: string;
  readonly seed: number;
  readonly lag: Lag;
}

/** Hop by hop: they are for one connection, and each side has its own. */
const hopHeaders = new Set(["connection", "keep-alive", "transfer-encoding", "host", "content-length"]);

export class LaggingProxy {
  readonly #options: LaggingProxyOptions;
  readonly #server: Server;
  readonly #upstream: Pool;
  readonly #calm = new AbortController();
  readonly #asked = new Map<string, number>();
  readonly #deleted = new Set<string>();

  private constructor(options: LaggingProxyOptions) {
    this.#options = options;
    const connect = options.ca === undefined ? {} : { connect: { ca: options.ca } };
    this.#upstream = new Pool(options.url, { ...connect, bodyTimeout: 0, headersTimeout: 0, allowH2: false });
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  /** Resolves when it listens on 127.0.0.1, for plain HTTP. */
  static async start(options: LaggingProxyOptions): Promise<LaggingProxy> {
    const proxy = new LaggingProxy(options);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The uids of pods whose deletion went through it, and was not refused. */
  get deletedPods(): ReadonlySet<string> {
    return this.#deleted;
  }

  /** From now on nothing is late: what is held comes, and connections that were silent are cut. */
  calm(): void {
    this.#calm.abort();
  }

  /** Breaks every connection off. */
  async close(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await this.#upstream.destroy();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "GET", url: path = "/" } = request;
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const body = method === "GET" ? undefined : await buffer(request);
    const uid = method === "DELETE" ? podToDelete(path, body) : undefined;
    const answer = await this.#upstream
      .request({
        method: method as Dispatcher.HttpMethod,
        path,
        headers: headersOf(request),
        ...(body === undefined ? {} : { body }),
        ...(method === "GET" ? { signal: gone.signal } : {}),
      })
      .catch((error: unknown) => {
        // Nobody knows what became of it: the server may have done it.
        if (uid !== undefined) this.#deleted.add(uid);
        throw error;
      });
    if (uid !== undefined && answer.statusCode < 400) this.#deleted.add(uid);
    const headers = Object.entries(answer.headers).filter(([name]) => !hopHeaders.has(name));
    const head = Object.fromEntries(headers.map(([name, value]) => [name, value ?? ""]));
    const { searchParams, pathname } = new URL(path, this.#options.url);
    const kind = kindOf(pathname);
    if (searchParams.get("watch") === "true" && answer.statusCode === 200) {
      response.writeHead(answer.statusCode, head).flushHeaders();
      const phases = phasesOf(this.#options.seed, kind ?? "", this.#count(`watch ${kind}`), this.#options.lag);
      return passLate(answer.body, response, { phases, calm: this.#calm.signal });
    }
    if (method === "GET" && kind !== undefined) await this.#holdList(kind);
    response.writeHead(answer.statusCode, head);
    return pipeline(answer.body, response);
  }

  #count(what: string): number {
    const count = (this.#asked.get(what) ?? 0) + 1;
    this.#asked.set(what, count);
    return count;
  }

  /** The server has answered: what it said grows old here. */
  async #holdList(kind: string): Promise<void> {
    const { seed, lag } = this.#options;
    if (lag.lateListsMs === 0 || this.#calm.signal.aborted) return;
    const ms = listDelayOf(seed, kind, this.#count(`list ${kind}`), lag);
    await delay(ms, undefined, { signal: this.#calm.signal }).catch(() => {});
  }
}

/** The resource that a path lists or watches; undefined for a path of one object, or of something else. */
function kindOf(pathname: string): string | undefined {
  return /^\/(?:api|apis\/[^/]+)\/[^/]+(?:\/namespaces\/[^/]+)?\/([^/]+)$/.exec(pathname)?.[1];
}

function headersOf(request: IncomingMessage): Record<string, string> {
  const headers = Object.entries(request.headers).filter(([name]) => !hopHeaders.has(name));
  return Object.fromEntries(headers.map(([name, value]) => [name, String(value)]));
}

/** The uid that a pod's deletion names; undefined for other deletions, and for dry runs. */
function podToDelete(path: string, body: Buffer | undefined): string | undefined {
  if (!/^\/api\/v1\/namespaces\/[^/]+\/pods\/[^/?]+(\?|$)/.test(path) || /[?&]dryRun=/.test(path)) return undefined;
  const options = JSON.parse(body?.toString("utf8") || "{}") as {
    readonly dryRun?: readonly string[];
    readonly preconditions?: { readonly uid?: string };
  };
  return options.dryRun?.length ? undefined : options.preconditions?.uid;
}
