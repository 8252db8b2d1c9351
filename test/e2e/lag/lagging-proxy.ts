/**
 * An API server for a client whose watches lag: requests pass at once, and reports of watches come late. One process of Sluice
 * uses it; all other clients use the API server itself.
 */
import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { ApiProxy, type Asked, headersOf, kindOf, type Upstream } from "../../support/forwarding.ts";
import { forwardLate } from "./delayed-stream.ts";
import { type Lag, listDelayOf, phasesOf } from "./delays.ts";

export interface LaggingProxyOptions extends Upstream {
  readonly seed: number;
  readonly lag: Lag;
}

export class LaggingProxy extends ApiProxy {
  readonly #options: LaggingProxyOptions;
  readonly #calm = new AbortController();
  readonly #asked = new Map<string, number>();
  readonly #deleted = new Set<string>();

  private constructor(options: LaggingProxyOptions) {
    super(options);
    this.#options = options;
  }

  /** Resolves when it listens. */
  static start(options: LaggingProxyOptions): Promise<LaggingProxy> {
    return new LaggingProxy(options).listen();
  }

  /** The uids of pods whose deletion went through it, and was not refused. */
  get deletedPods(): ReadonlySet<string> {
    return this.#deleted;
  }

  /** From now on nothing is late: delayed bytes come, and connections that were silent are cut. */
  calm(): void {
    this.#calm.abort();
  }

  protected async answer({ method, path, body, forward }: Asked, response: ServerResponse): Promise<void> {
    const uid = method === "DELETE" ? podToDelete(path, body) : undefined;
    const answer = await forward().catch((error: unknown) => {
      // The outcome is unknown: the server may have deleted the pod.
      if (uid !== undefined) this.#deleted.add(uid);
      throw error;
    });
    if (uid !== undefined && answer.statusCode < 400) this.#deleted.add(uid);
    const head = headersOf(answer);
    const { searchParams, pathname } = new URL(path, this.#options.url);
    const kind = kindOf(pathname);
    if (searchParams.get("watch") === "true" && answer.statusCode === 200) {
      response.writeHead(answer.statusCode, head).flushHeaders();
      const phases = phasesOf(this.#options.seed, kind ?? "", this.#count(`watch ${kind}`), this.#options.lag);
      return forwardLate(answer.body, response, { phases, calm: this.#calm.signal });
    }
    if (method === "GET" && kind !== undefined) await this.#delayList(kind);
    response.writeHead(answer.statusCode, head);
    return pipeline(answer.body, response);
  }

  #count(what: string): number {
    const count = (this.#asked.get(what) ?? 0) + 1;
    this.#asked.set(what, count);
    return count;
  }

  /** The server has answered, and its answer grows old here. */
  async #delayList(kind: string): Promise<void> {
    const { seed, lag } = this.#options;
    if (lag.lateListsMs === 0 || this.#calm.signal.aborted) return;
    const ms = listDelayOf(seed, kind, this.#count(`list ${kind}`), lag);
    await delay(ms, undefined, { signal: this.#calm.signal }).catch(() => {});
  }
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
