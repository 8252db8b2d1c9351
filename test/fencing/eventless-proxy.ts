/** A proxy in front of API servers that deliver no event, and whose clocks do not agree. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { ApiProxy, type Asked, headersOf } from "../support/forwarding.ts";
import { kubeconfigText } from "../support/kubeconfig.ts";

/** How far the clocks of two API servers are apart, which answer in turn. */
const apartMs = 30_000;

export class EventlessProxy extends ApiProxy {
  readonly #folder = mkdtempSync(join(tmpdir(), "sluice-eventless-"));
  readonly #reads = new Map<string, number>();
  #answers = 0;
  #watches = 0;
  /** How far the clocks of both API servers are ahead of the right time, in milliseconds. */
  aheadMs = 0;

  static async start({ url, caFile, token }: ControlPlane): Promise<EventlessProxy> {
    const proxy = await new EventlessProxy({ url, ca: readFileSync(caFile, "utf8") }).listen();
    writeFileSync(proxy.kubeconfig, kubeconfigText(proxy.url, { token }));
    return proxy;
  }

  /** For the process behind it. */
  get kubeconfig(): string {
    return join(this.#folder, "kubeconfig");
  }

  /** How many watches there were, each of which stays open and silent. */
  get watches(): number {
    return this.#watches;
  }

  /** How often an object was read, or a kind listed, and answered. */
  readsOf(path: string): number {
    return this.#reads.get(path) ?? 0;
  }

  override async close(): Promise<void> {
    await super.close();
    rmSync(this.#folder, { recursive: true });
  }

  protected async answer({ method, path, forward }: Asked, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(path, this.url);
    if (searchParams.has("watch")) {
      this.#watches++;
      response.writeHead(200, { "content-type": "application/json" }).flushHeaders();
      return;
    }
    const answer = await forward();
    const offsetMs = this.aheadMs + (this.#answers++ % 2 === 0 ? 0 : apartMs);
    const date = new Date(Date.now() + offsetMs).toUTCString();
    response.writeHead(answer.statusCode, { ...headersOf(answer), date });
    await pipeline(answer.body, response);
    if (method === "GET") this.#reads.set(pathname, this.readsOf(pathname) + 1);
  }
}
