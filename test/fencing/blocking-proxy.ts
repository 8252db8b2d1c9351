/** A proxy in front of the API server that blocks one write of the process behind it for as long as a test wants. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { ApiProxy, type Asked, headersOf } from "../support/forwarding.ts";
import { kubeconfigText } from "../support/kubeconfig.ts";

/** A write that is blocked. */
export interface BlockedWrite {
  /** Resolves when the process has sent it. */
  readonly sent: Promise<void>;
  /** Passes it on. Resolves to the status of the API server's answer. */
  release(): Promise<number>;
}

interface Block {
  readonly path: string;
  readonly text: string;
  readonly sent: PromiseWithResolvers<void>;
  readonly passed: PromiseWithResolvers<void>;
  readonly status: PromiseWithResolvers<number>;
}

export class BlockingProxy extends ApiProxy {
  readonly #folder = mkdtempSync(join(tmpdir(), "sluice-blocking-"));
  #next: Block | undefined;

  static async start({ url, caFile, token }: ControlPlane): Promise<BlockingProxy> {
    const proxy = await new BlockingProxy({ url, ca: readFileSync(caFile, "utf8") }).listen();
    writeFileSync(proxy.kubeconfig, kubeconfigText(proxy.url, { token }));
    return proxy;
  }

  /** For the process behind it. */
  get kubeconfig(): string {
    return join(this.#folder, "kubeconfig");
  }

  /** Blocks the next write to a path, without its query, whose body has the text. */
  block(path: string, text: string): BlockedWrite {
    const [sent, passed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const status = Promise.withResolvers<number>();
    this.#next = { path, text, sent, passed, status };
    return {
      sent: sent.promise,
      release: () => {
        passed.resolve();
        return status.promise;
      },
    };
  }

  override async close(): Promise<void> {
    this.#next?.passed.resolve();
    await super.close();
    rmSync(this.#folder, { recursive: true });
  }

  protected async answer({ path, body, forward }: Asked, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(path, this.url);
    const next = this.#next;
    const isBlocked = next?.path === pathname && body?.includes(next.text) === true;
    if (isBlocked) {
      this.#next = undefined;
      next.sent.resolve();
      await next.passed.promise;
    }
    const answer = await forward();
    if (isBlocked) next.status.resolve(answer.statusCode);
    response.writeHead(answer.statusCode, headersOf(answer));
    await pipeline(answer.body, response);
  }
}
